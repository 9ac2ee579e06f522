// SPDX-License-Identifier: MIT
// Handles: objects behind opaque handle values. A dropped handle is the next one given out, as
// the driver does; a stale or invented one is told apart from a live one. Guarded by the
// world's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace custash::sim {

template <typename T>
class Handles {
 public:
  // `base` keeps the values of different kinds apart.
  explicit Handles(std::uintptr_t base) : base_(base) {}

  template <typename Handle>
  Handle add(std::unique_ptr<T> object) {
    std::size_t index = slots_.size();
    if (free_.empty()) {
      slots_.push_back(std::move(object));
    } else {
      index = free_.back();
      free_.pop_back();
      slots_[index] = std::move(object);
    }
    ++live_;
    return (Handle)(base_ + index * kStep);
  }

  template <typename Handle>
  T* get(Handle handle) const {
    const std::size_t index = index_of((std::uintptr_t)handle);
    return index < slots_.size() ? slots_[index].get() : nullptr;
  }

  template <typename Handle>
  std::unique_ptr<T> drop(Handle handle) {
    const std::size_t index = index_of((std::uintptr_t)handle);
    if (index >= slots_.size() || slots_[index] == nullptr) return nullptr;
    free_.push_back(index);
    --live_;
    return std::move(slots_[index]);
  }

  template <typename Test>
  void drop_if(Test&& test) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i] != nullptr && test(*slots_[i])) drop(base_ + i * kStep);
  }

  // For primary contexts, whose handle stays the same while there is no object behind it.
  template <typename Handle>
  std::unique_ptr<T> withdraw(Handle handle) {
    --live_;
    return std::move(slots_[index_of((std::uintptr_t)handle)]);
  }

  template <typename Handle>
  void restore(Handle handle, std::unique_ptr<T> object) {
    ++live_;
    slots_[index_of((std::uintptr_t)handle)] = std::move(object);
  }

  template <typename Each>
  void each(Each&& visit) const {
    for (const auto& slot : slots_)
      if (slot != nullptr) visit(*slot);
  }

  std::size_t live() const { return live_; }

 private:
  static constexpr std::uintptr_t kStep = 0x80;

  std::size_t index_of(std::uintptr_t value) const {
    if (value < base_ || (value - base_) % kStep != 0) return slots_.size();
    return (value - base_) / kStep;
  }

  std::uintptr_t base_;
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<std::size_t> free_;
  std::size_t live_ = 0;
};

}  // namespace custash::sim
