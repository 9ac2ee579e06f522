// SPDX-License-Identifier: MIT
// this_thread: a name for the calling thread; threads that live at once have different ones.
// thread_number: a number for it that no thread of the process had before. Never 0.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace custash {

inline const void* this_thread() {
  static thread_local char here;
  return &here;
}

inline std::uint32_t thread_number() {
  static constinit std::atomic<std::uint32_t> next{
      1};  // Order: none, each number is given once
  static thread_local const std::uint32_t mine =
      std::max(1U, next.fetch_add(1, std::memory_order_relaxed));
  return mine;
}

}  // namespace custash
