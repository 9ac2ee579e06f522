// SPDX-License-Identifier: MIT
// Which of custash's locks the calling thread holds: a thread that comes back while it holds
// one, from a malloc of ours that another library has made its own, must not take a second.
//
#pragma once

namespace custash {

// One bit a rank: no thread ever holds two locks of one rank. Set by Mutex.
extern constinit thread_local unsigned held_lock_ranks;

inline bool holds_a_lock() {
  return held_lock_ranks != 0;
}

}  // namespace custash
