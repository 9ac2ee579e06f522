// SPDX-License-Identifier: MIT
// The custash locks that the calling thread holds. Another library may replace malloc and call
// custash from it. A thread that comes back that way while it holds a lock must not take a
// second one.
//
#pragma once

namespace custash {

// One bit a rank: no thread ever holds two locks of one rank. Set by Mutex.
extern constinit thread_local unsigned held_lock_ranks;

inline bool holds_a_lock() {
  return held_lock_ranks != 0;
}

}  // namespace custash
