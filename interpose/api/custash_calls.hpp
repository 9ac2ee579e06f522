// SPDX-License-Identifier: MIT
//
// Shared by custash.hpp, custash_resource.hpp and custash_thrust.hpp: the functions of
// custash.h, linked or found by dlsym, and the exceptions. Not to be included by itself.
#pragma once

#include "custash.h"

#include <cstddef>
#include <exception>
#include <new>

#include <dlfcn.h>

namespace custash {

// The exceptions: the reason in one line, and a status of custash.h.
template <typename Base>
class failure : public Base {
 public:
  failure(custash_status_t status, const char* what) noexcept : status_(status), what_(what) {}

  custash_status_t status() const noexcept { return status_; }

  const char* what() const noexcept override { return what_; }

 private:
  custash_status_t status_;
  const char* what_;  // lives as long as the process
};

using bad_alloc = failure<std::bad_alloc>;  // by an allocation, whatever it failed for
using error = failure<std::exception>;      // by all else

#ifdef CUSTASH_PRELOADED
inline namespace preloaded {
#else
inline namespace linked {
#endif

// The functions of custash.h that are used here, as the library in use has them. Null where
// there is none.
struct calls {
#ifdef CUSTASH_PRELOADED
#define CUSTASH_FIND(name) \
  decltype(&::name) name = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_DEFAULT, #name))
#else
#define CUSTASH_FIND(name) decltype(&::name) name = &::name
#endif
  CUSTASH_FIND(custash_malloc_async);
  CUSTASH_FIND(custash_malloc);
  CUSTASH_FIND(custash_free);
  CUSTASH_FIND(custash_free_async);
  CUSTASH_FIND(custash_host_malloc);
  CUSTASH_FIND(custash_host_free);
  CUSTASH_FIND(custash_host_record_stream);
  CUSTASH_FIND(custash_error_string);
#undef CUSTASH_FIND

  static const calls& get() {
    static const calls found;
    return found;
  }

  const char* text(custash_status_t status) const noexcept {
    return custash_error_string == nullptr ? "custash is not preloaded"
                                           : custash_error_string(status);
  }

  // custash_host_malloc, or bad_alloc. Aligned to 512, from 4 KiB on to 4,096.
  void* allocate(std::size_t bytes, unsigned flags) const {
    void* memory = nullptr;
    custash_status_t status = CUSTASH_ERROR_NOT_RUNNING;
    if (custash_host_malloc != nullptr) status = custash_host_malloc(&memory, bytes, flags);
    if (status != CUSTASH_SUCCESS) throw bad_alloc(status, text(status));
    return memory;
  }

  // Device memory: of custash_malloc_async for `stream`, or of custash_malloc. Aligned to
  // 512; throws bad_alloc.
  void* allocate_device(int device, std::size_t bytes, custash_stream_t stream) const {
    void* memory = nullptr;
    custash_status_t status = CUSTASH_ERROR_NOT_RUNNING;
    if (custash_malloc_async != nullptr)
      status = custash_malloc_async(&memory, device, bytes, stream);
    if (status != CUSTASH_SUCCESS) throw bad_alloc(status, text(status));
    return memory;
  }

  void* allocate_device(int device, std::size_t bytes) const {
    void* memory = nullptr;
    custash_status_t status = CUSTASH_ERROR_NOT_RUNNING;
    if (custash_malloc != nullptr) status = custash_malloc(&memory, device, bytes);
    if (status != CUSTASH_SUCCESS) throw bad_alloc(status, text(status));
    return memory;
  }

  void free_device(void* memory) const noexcept {
    if (memory != nullptr) (void)custash_free(memory);
  }

  void free_device(void* memory, custash_stream_t stream) const noexcept {
    if (memory != nullptr) (void)custash_free_async(memory, stream);
  }

  // Errors are not reported: they come from an earlier kernel, or the process is ending.
  void free(void* memory) const noexcept {
    if (memory != nullptr) (void)custash_host_free(memory);
  }
};

}  // inline namespace
}  // namespace custash
