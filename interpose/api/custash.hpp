// SPDX-License-Identifier: MIT
//
// custash for C++17 and later: the pinned host memory of custash.h as owned buffers and as a
// std::pmr resource. Any thread may use it at any time, one object by one thread at a time.
//
// Linked with libcustash.a, include it as it is. In a program that is started with
// libcustash.so preloaded, define CUSTASH_PRELOADED first. Functions are then found by dlsym.
// Such a program also starts without custash, where every allocation throws bad_alloc with
// CUSTASH_ERROR_NOT_RUNNING.
#pragma once

#include "custash_calls.hpp"

#include <memory_resource>
#include <type_traits>
#include <utility>

#if __has_include(<span>)
#include <span>
#endif

namespace custash {
#ifdef CUSTASH_PRELOADED
inline namespace preloaded {
#else
inline namespace linked {
#endif

// `size()` elements in pinned host memory, uninitialised at first. The destructor frees without
// waiting. The memory is reused only after the work submitted before that to the streams of
// record_stream(), or to all streams if none was named.
template <typename T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>, "the device copies bytes");
  static_assert(std::is_trivially_default_constructible_v<T>, "no constructor is run");
  static_assert(alignof(T) <= 512, "pinned memory is aligned to 512");

 public:
  using value_type = T;

  // Empty: no memory.
  pinned_buffer() noexcept = default;

  // Flags are CUSTASH_HOST_…. Throws bad_alloc.
  explicit pinned_buffer(std::size_t size, unsigned flags = CUSTASH_HOST_DEFAULT)
      : size_(size) {
    if (size > static_cast<std::size_t>(-1) / sizeof(T))
      throw bad_alloc(CUSTASH_ERROR_OUT_OF_MEMORY, "more bytes than there are addresses");
    data_ = static_cast<T*>(calls::get().allocate(size * sizeof(T), flags));
  }

  pinned_buffer(pinned_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    pinned_buffer(std::move(other)).swap(*this);
    return *this;
  }

  ~pinned_buffer() { calls::get().free(data_); }

  void swap(pinned_buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  // Frees, and leaves the buffer empty.
  void reset() noexcept { pinned_buffer().swap(*this); }

  // Says that `stream` uses the buffer, and that only streams so named do. Throws error where
  // the buffer is empty.
  void record_stream(custash_stream_t stream) {
    const calls& api = calls::get();
    custash_status_t status = CUSTASH_ERROR_INVALID_VALUE;
    if (data_ != nullptr) status = api.custash_host_record_stream(data_, stream);
    if (status != CUSTASH_SUCCESS) throw error(status, api.text(status));
  }

  // As with a pointer, const does not reach the elements.
  T* data() const noexcept { return data_; }

  T* begin() const noexcept { return data_; }

  T* end() const noexcept { return data_ + size_; }

  T& operator[](std::size_t i) const noexcept { return data_[i]; }

  std::size_t size() const noexcept { return size_; }

  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }

  bool empty() const noexcept { return size_ == 0; }

#ifdef __cpp_lib_span
  std::span<T> span() const noexcept {
    return {data_, size_};
  }
#endif

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Pinned memory for std::pmr containers. Small requests take a whole block each: for many of
// them put a std::pmr::unsynchronized_pool_resource in front. Any alignment up to 4,096; a
// larger one throws bad_alloc with CUSTASH_ERROR_INVALID_VALUE. Freed as a buffer that names no
// stream.
class pinned_resource : public std::pmr::memory_resource {
 public:
  explicit pinned_resource(unsigned flags = CUSTASH_HOST_DEFAULT) noexcept : flags_(flags) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > 4096)
      throw bad_alloc(CUSTASH_ERROR_INVALID_VALUE, "pinned memory is aligned to 4096 at most");
    const std::size_t least = alignment > 512 ? 4096 : 1;
    return calls::get().allocate(bytes > least ? bytes : least, flags_);
  }

  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    calls::get().free(memory);
  }

  // Memory of other flags would serve another purpose.
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const pinned = dynamic_cast<const pinned_resource*>(&other);
    return pinned != nullptr && pinned->flags_ == flags_;
  }

  unsigned flags_;
};

}  // inline namespace
}  // namespace custash
