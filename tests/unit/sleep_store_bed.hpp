// SPDX-License-Identifier: MIT
// For the tests of SleepStore: a driver and workers that say what they do, and can be told what
// to refuse or to wait for.
#pragma once

#include "pinned/sleep_store.hpp"
#include "tests/unit/contents.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace custash {

// What the workers do. One test at a time.
struct Seen {
  std::mutex mutex;
  std::map<Address, Address> touched;
  std::set<std::thread::id> threads;
  std::atomic<Address> cannot_touch{0};
  std::atomic<Address> cannot_pin{0};
  std::atomic<bool> cannot_touch_any{false};
  std::atomic<bool> cannot_pin_any{false};
  std::atomic<Address> late{0};  // is not touched before it is wanted
  std::atomic<bool> late_wanted{false};
  std::atomic<bool> registering_waits{false};
  std::atomic<bool> wrong{false};
};

inline Seen* seen = nullptr;

// Where a thread would wait for ever, the test fails in the end.
template <typename Condition>
void wait_for(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      seen->wrong = true;
      return;
    }
    std::this_thread::yield();
  }
}

inline std::size_t touches() {
  const std::lock_guard<std::mutex> lock(seen->mutex);
  return seen->touched.size();
}

inline bool touch(Address begin, Address end) {
  {
    const std::lock_guard<std::mutex> lock(seen->mutex);
    if (!seen->touched.emplace(begin, end).second) seen->wrong = true;
    seen->threads.insert(std::this_thread::get_id());
  }
  if (begin == seen->late.load()) {
    wait_for([] { return seen->late_wanted.load(); });
    if (*reinterpret_cast<const char*>(begin) != 0) seen->wrong = true;  // copied into before
  }
  if (seen->cannot_touch_any) return false;
  const Address cannot = seen->cannot_touch.load();
  return (cannot < begin || cannot >= end) && touch_range(begin, end);
}

// Bed's own check is for one thread.
inline void check_entries() {
  sim::set_entry_check([] {
    if (held_locks() != 0 && seen != nullptr) seen->wrong = true;
  });
}

inline const PinnedCalls kCalls{.touch = touch};

inline Driver driver_of(const sim::Sim& world) {
  static CUresult (*real)(void*, std::size_t, unsigned);
  Driver driver = world.driver();
  real = driver.mem_host_register;
  driver.mem_host_register = [](void* base, std::size_t bytes, unsigned flags) {
    if (seen->registering_waits.exchange(false)) {
      const std::size_t before = touches();
      wait_for([&] { return touches() > before; });
    }
    return seen->cannot_pin_any || reinterpret_cast<Address>(base) == seen->cannot_pin.load()
               ? CUDA_ERROR_NOT_PERMITTED
               : real(base, bytes, flags);
  };
  return driver;
}

inline Config pinned_config(unsigned threads) {
  return {.backing = Backing::Vmm, .pinned_threads = threads, .sleep_pinned = 1_GiB};
}

}  // namespace custash
