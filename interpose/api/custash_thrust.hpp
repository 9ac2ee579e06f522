// SPDX-License-Identifier: MIT
//
// custash for C++17 and later: allocators for Thrust, and CUB through it. Needs Thrust (CCCL).
// CUSTASH_PRELOADED: as in custash.hpp.
//
//   thrust::device_vector<float, custash::device_allocator<float>> v(n);
//   custash::temporary_allocator memory(stream);
//   thrust::sort(thrust::cuda::par_nosync(memory).on(stream), v.begin(), v.end());
#pragma once

#include "custash_calls.hpp"

#include <cstddef>

#include <thrust/device_ptr.h>

namespace custash {
#ifdef CUSTASH_PRELOADED
inline namespace preloaded {
#else
inline namespace linked {
#endif

// Device memory for containers: may be used on any stream, and is handed out again behind all
// that its context holds at the free. Throws bad_alloc.
template <typename T>
class device_allocator {
  static_assert(alignof(T) <= 512, "device memory is aligned to 512");

 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<const T>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<const T>;
  using size_type = std::size_t;
  using difference_type = typename pointer::difference_type;

  device_allocator() noexcept = default;

  template <typename U>
  device_allocator(const device_allocator<U>&) noexcept {}  // NOLINT: as allocators convert

  pointer allocate(size_type count) {
    if (count > static_cast<size_type>(-1) / sizeof(T))
      throw bad_alloc(CUSTASH_ERROR_OUT_OF_MEMORY, "more bytes than there are addresses");
    return pointer(static_cast<T*>(
        calls::get().allocate_device(CUSTASH_CURRENT_DEVICE, count * sizeof(T))));
  }

  void deallocate(pointer memory, size_type) noexcept {
    calls::get().free_device(memory.get());
  }

  friend bool operator==(const device_allocator&, const device_allocator&) noexcept {
    return true;
  }

  friend bool operator!=(const device_allocator&, const device_allocator&) noexcept {
    return false;
  }
};

// Temporary memory of algorithms, for thrust::cuda::par(memory).on(stream). It is ordered on
// that one stream, so the next algorithm gets the same memory at once. Throws bad_alloc.
class temporary_allocator {
 public:
  using value_type = char;

  // NULL: the legacy default stream.
  explicit temporary_allocator(custash_stream_t stream = nullptr) noexcept : stream_(stream) {}

  char* allocate(std::ptrdiff_t bytes) {
    return static_cast<char*>(calls::get().allocate_device(
        CUSTASH_CURRENT_DEVICE, static_cast<std::size_t>(bytes), stream_));
  }

  void deallocate(char* memory, std::size_t) noexcept {
    calls::get().free_device(memory, stream_);
  }

 private:
  custash_stream_t stream_;
};

}  // inline namespace
}  // namespace custash
