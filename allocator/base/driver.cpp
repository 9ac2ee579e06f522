// SPDX-License-Identifier: MIT
#include "allocator/base/driver.hpp"

#include "allocator/base/thread.hpp"

#include <chrono>
#include <thread>

namespace custash {
namespace {

Nanoseconds steady_now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanoseconds>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(t).count());
}

void sleep_for(Nanoseconds time) {
  const CancellationOff off;
  std::this_thread::sleep_for(std::chrono::nanoseconds(time));
}

enum class Need { Required, Optional };

template <typename Fn>
bool fill_one(Fn& slot, Need need, void* found) {
  slot = reinterpret_cast<Fn>(found);
  return found != nullptr || need == Need::Optional;
}

}  // namespace

bool Driver::fill(void* (*find)(const char* symbol)) {
  bool complete = true;
#define CUSTASH_DRIVER_FILL(need, member, symbol, params) \
  complete &= fill_one(member, Need::need, find(symbol));
  CUSTASH_DRIVER_CALLS(CUSTASH_DRIVER_FILL)
#undef CUSTASH_DRIVER_FILL
  if (now == nullptr) now = steady_now;
  if (rest == nullptr) rest = sleep_for;
  return complete;
}

}  // namespace custash
