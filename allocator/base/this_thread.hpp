// SPDX-License-Identifier: MIT
// this_thread: a name for the calling thread; threads that live at once have different ones.
//
#pragma once

namespace custash {

inline const void* this_thread() {
  static thread_local char here;
  return &here;
}

}  // namespace custash
