// SPDX-License-Identifier: MIT
// Relaxed: a value that a thread may look at while another changes it, as one look at a time:
// an atomic that can be copied with the struct that it is part of. Pure.
#pragma once

#include <atomic>

namespace custash {

template <typename T>
class SharedField {
 public:
  using Value = T;

  SharedField(T value = T()) : value_(value) {}  // NOLINT: a T that may be watched

  SharedField(const SharedField& other) : value_(static_cast<T>(other)) {}

  SharedField& operator=(const SharedField& other) { return *this = static_cast<T>(other); }

  SharedField& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

  operator T() const { return value_.load(std::memory_order_relaxed); }  // NOLINT

  // What it was; of threads that come together, one gets it.
  T exchange(T value) { return value_.exchange(value, std::memory_order_acq_rel); }

  // What was written before is seen by whoever exchanges it away.
  void publish(T value) { value_.store(value, std::memory_order_release); }

  [[nodiscard]] T look() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<T> value_;
};

}  // namespace custash
