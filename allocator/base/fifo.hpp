// SPDX-License-Identifier: MIT
// Fifo: a queue in one piece of memory. Unlike std::deque, an empty one that was never used has
// no memory of its own; there are dozens of them for each stream. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace custash {

template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return first_ == items_.size(); }

  [[nodiscard]] std::size_t size() const { return items_.size() - first_; }

  [[nodiscard]] const T& front() const { return items_[first_]; }

  [[nodiscard]] const T& back() const { return items_.back(); }

  void push_back(const T& item) { items_.push_back(item); }

  void pop_front() {
    items_[first_++] = T();
    if (empty()) {
      clear();
    } else if (first_ >= kMostGone && first_ >= size()) {  // each item moves once at most
      items_.erase(begin_of(0), begin_of(first_));
      first_ = 0;
    }
  }

  void clear() {
    items_.clear();
    first_ = 0;
  }

  [[nodiscard]] auto begin() const { return items_.begin() + offset(first_); }

  [[nodiscard]] auto end() const { return items_.end(); }

 private:
  static constexpr std::size_t kMostGone = 16;

  static std::ptrdiff_t offset(std::size_t at) { return static_cast<std::ptrdiff_t>(at); }

  auto begin_of(std::size_t at) { return items_.begin() + offset(at); }

  std::vector<T> items_;
  std::size_t first_ = 0;  // those before it are gone
};

}  // namespace custash
