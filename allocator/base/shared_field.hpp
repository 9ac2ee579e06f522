// SPDX-License-Identifier: MIT
// SharedField: a copyable atomic field. Other threads may read it while its owner writes. Each
// access stands alone. Order: relaxed, but what publish() releases acquire() and exchange()
// acquire. Pure.
#pragma once

#include <atomic>

namespace custash {

template <typename T>
class SharedField {
 public:
  using Value = T;

  SharedField(T value = T()) : value_(value) {}  // NOLINT: converts like T

  SharedField(const SharedField& other) : value_(static_cast<T>(other)) {}

  SharedField& operator=(const SharedField& other) { return *this = static_cast<T>(other); }

  SharedField& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

  operator T() const { return value_.load(std::memory_order_relaxed); }  // NOLINT

  // Returns the old value. If several threads race, exactly one sees it.
  T exchange(T value) { return value_.exchange(value, std::memory_order_acq_rel); }

  // A thread that reads it by exchange() or acquire() also sees the writes before this.
  void publish(T value) { value_.store(value, std::memory_order_release); }

  [[nodiscard]] T acquire() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<T> value_;
};

}  // namespace custash
