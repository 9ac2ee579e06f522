// SPDX-License-Identifier: MIT
//
// custash for C++17 and later: device memory as a memory resource of libcu++ (cuda::mr), which
// CCCL's containers and RMM take. Needs CCCL (in CUDA 13: -I…/include/cccl, which nvcc adds
// itself). CUSTASH_PRELOADED: as in custash.hpp.
//
//   custash::device_resource memory;                              // of the current device
//   void* p = memory.allocate_async(bytes, 256, stream);          // CCCL 3.0
//   void* p = memory.allocate(cuda::stream_ref{stream}, bytes, 256);  // CCCL 3.1 and later
//   rmm::mr::set_current_device_resource(memory);                 // RMM from 26.8 on
//   rmm::mr::set_current_device_resource_ref(memory);             // RMM 25.12 to 26.4
#pragma once

#include "custash_calls.hpp"

#include <cuda/memory_resource>
#include <cuda/stream_ref>

namespace custash {
#ifdef CUSTASH_PRELOADED
inline namespace preloaded {
#else
inline namespace linked {
#endif

// Has the members of both forms of the concept: that of CCCL 3.0, and that of 3.1 and later.
// Members that name a stream are ordered on it, as cudaMallocAsync and cudaFreeAsync are.
// Memory of the others may be used on any stream; it is handed out again behind all that its
// context holds at the free. Nothing waits for the device. Every allocation throws bad_alloc.
// Any thread may use one object at any time.
class device_resource {
 public:
  // Blocks are aligned to this, and a larger alignment is refused.
  static constexpr std::size_t alignment = 512;

  // CUSTASH_CURRENT_DEVICE: of the device that is the calling thread's at each allocation.
  explicit device_resource(int device = CUSTASH_CURRENT_DEVICE) noexcept : device_(device) {}

  void* allocate_sync(std::size_t bytes, std::size_t align = alignment) const {
    check(align);
    return calls::get().allocate_device(device_, bytes);
  }

  void deallocate_sync(void* memory, std::size_t, std::size_t = alignment) const noexcept {
    calls::get().free_device(memory);
  }

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t align) const {
    check(align);
    return calls::get().allocate_device(device_, bytes, stream.get());
  }

  void deallocate(cuda::stream_ref stream,
                  void* memory,
                  std::size_t,
                  std::size_t) const noexcept {
    calls::get().free_device(memory, stream.get());
  }

  // CCCL 3.0's names.
  void* allocate(std::size_t bytes, std::size_t align = alignment) const {
    return allocate_sync(bytes, align);
  }

  void deallocate(void* memory,
                  std::size_t bytes,
                  std::size_t align = alignment) const noexcept {
    deallocate_sync(memory, bytes, align);
  }

  void* allocate_async(std::size_t bytes, std::size_t align, cuda::stream_ref stream) const {
    return allocate(stream, bytes, align);
  }

  void* allocate_async(std::size_t bytes, cuda::stream_ref stream) const {
    return allocate(stream, bytes, alignment);
  }

  void deallocate_async(void* memory,
                        std::size_t bytes,
                        std::size_t align,
                        cuda::stream_ref stream) const noexcept {
    deallocate(stream, memory, bytes, align);
  }

  void deallocate_async(void* memory,
                        std::size_t bytes,
                        cuda::stream_ref stream) const noexcept {
    deallocate(stream, memory, bytes, alignment);
  }

  // Any of them may free what another has allocated.
  friend bool operator==(const device_resource&, const device_resource&) noexcept {
    return true;
  }

  friend bool operator!=(const device_resource&, const device_resource&) noexcept {
    return false;
  }

#if defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE) || CCCL_VERSION >= 3001000
  friend constexpr void get_property(const device_resource&,
                                     cuda::mr::device_accessible) noexcept {
  }
#endif

 private:
  static void check(std::size_t align) {
    if (align > alignment)
      throw bad_alloc(CUSTASH_ERROR_INVALID_VALUE, "device memory is aligned to 512 at most");
  }

  int device_;
};

}  // inline namespace
}  // namespace custash
