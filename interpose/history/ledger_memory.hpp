// SPDX-License-Identifier: MIT
// Memory for a ledger: a file that only this user may open, or private memory. Every mapped
// page of the file has its blocks on the disk, so a full disk is an error and never a signal.
// Once the file cannot grow, new memory is private. No lock of its own; never destroyed.
#pragma once

#include "interpose/history/ledger.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

namespace custash::ledger {

class Storage {
 public:
  static constexpr std::uint64_t kPrivate = ~std::uint64_t{0};

  struct Region {
    void* at = nullptr;
    std::size_t bytes = 0;
    std::uint64_t offset = kPrivate;  // in the file
  };

  // Makes the file; false where it cannot be made.
  bool share(const char* path) noexcept;

  // Where to note that the file cannot grow any more.
  void set_partial(std::uint32_t* partial) { partial_ = partial; }

  // Zeros. Throws std::bad_alloc.
  Region get(std::size_t bytes);
  void drop(const Region& region) noexcept;

  [[nodiscard]] bool shared() const { return path_[0] != '\0'; }

 private:
  [[nodiscard]] int open_again() const noexcept;
  Region get_shared(std::size_t bytes) noexcept;

  char path_[256] = {};  // empty: none, or no more
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::uint64_t end_ = 0;
  std::uint32_t* partial_ = nullptr;
};

// Rows of one kind: a vector that another process can read while it is in the file.
template <typename Row>
class Rows {
 public:
  void begin(Storage* memory, Area* shown) {
    memory_ = memory;
    shown_ = shown;
    shown->row = sizeof(Row);
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  Row* data() { return rows_; }

  Row& operator[](std::size_t i) { return rows_[i]; }

  const Row& operator[](std::size_t i) const { return rows_[i]; }

  Row* begin() { return rows_; }

  Row* end() { return rows_ + size_; }

  void push_back(const Row& row) {
    if (size_ == capacity_) [[unlikely]]
      grow(size_ + 1);
    rows_[size_++] = row;
    publish();
  }

  void append(const Row* rows, std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    if (count != 0) std::memcpy(static_cast<void*>(rows_ + size_), rows, count * sizeof(Row));
    size_ += count;
    publish();
  }

 private:
  static constexpr std::size_t kLeast = 16384;  // bytes

  // Order: `count` and `which` are released after what they count.
  void publish() {
    if (region_.offset != Storage::kPrivate)
      std::atomic_ref(shown_->count).store(size_, std::memory_order_release);
  }

  [[gnu::noinline]] void grow(std::size_t least) {
    std::size_t bytes = kLeast;
    while (bytes < least * sizeof(Row) || bytes < 2 * capacity_ * sizeof(Row))
      bytes *= 2;
    const Storage::Region fresh = memory_->get(bytes);
    if (size_ != 0) std::memcpy(fresh.at, static_cast<const void*>(rows_), size_ * sizeof(Row));
    rows_ = static_cast<Row*>(fresh.at);
    capacity_ = bytes / sizeof(Row);
    const bool was_shared = region_.offset != Storage::kPrivate;
    if (fresh.offset != Storage::kPrivate) {
      const std::uint64_t next = 1 - shown_->which;
      shown_->places[next] = {fresh.offset, capacity_};
      std::atomic_ref(shown_->which).store(next, std::memory_order_release);
    }
    // The reader keeps what it saw last where nothing newer can be shared.
    if (region_.at != nullptr && (fresh.offset != Storage::kPrivate || !was_shared))
      memory_->drop(region_);
    region_ = fresh;
  }

  Storage* memory_ = nullptr;
  Area* shown_ = nullptr;
  Storage::Region region_;
  Row* rows_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace custash::ledger
