// SPDX-License-Identifier: MIT
// The runtime's fast path, in the preload library only. A hit is answered at once, and so is a
// free that needs nothing but a fence. Everything else (a miss, null, zero, a first use, a
// capture, an error, a driver's entry that is patched) goes to the real runtime, which calls
// the driver's hook. This file makes no error of its own and sets no last error.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/patched.hpp"
// clang-format on
#include "allocator/base/thread.hpp"
#include "allocator/submission.hpp"
#include "interpose/hooks/async_memory.hpp"
#include "interpose/hooks/own_pools.hpp"
#include "interpose/hooks/pitches.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/real_runtime.hpp"

#define CUSTASH_RUNTIME_HOOK(hook, name, params)             \
  custash::runtime::Error hook params noexcept __asm__(name) \
      __attribute__((visibility("default")))

// In a hook itself, not in what it calls.
#define CUSTASH_CALLER __builtin_return_address(0)

namespace custash::runtime {
namespace {

// Only while the core runs: the fast path never starts it, because only the runtime knows
// whether it may. Nor while calls are recorded, which the driver's hook does.
Allocator* fast_core() noexcept {
  Allocator* const core = process::current.load(std::memory_order_acquire);
  return core != nullptr && !holds_a_lock() && !observe::on() && context_is_current() ? core
                                                                                      : nullptr;
}

// Nor while a stream captures. The core checks that itself where it answers alone.
Allocator* fast_core_outside_captures() noexcept {
  return captures::under_way() ? nullptr : fast_core();
}

// `caller`: where the hook returns to.
template <typename Function, typename... Args>
Error forward(Call call, const void* caller, Args... args) noexcept {
  const CancellationOff off;
  auto* const real = function<Function>(call, caller);
  return real == nullptr ? kSymbolNotFound : real(args...);
}

CUcontext current_context(Allocator& core) {
  CUcontext context = nullptr;
  return core.driver().ctx_get_current(&context) == CUDA_SUCCESS ? context : nullptr;
}

Address hit(Allocator& core, std::size_t bytes) {
  CUcontext const context = current_context(core);
  return context == nullptr ? 0 : core.try_allocate(context, bytes);
}

bool allocate_rows(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  Allocator* const core = fast_core();
  CUdevice device = 0;
  if (core == nullptr || out == nullptr || pitch == nullptr ||
      core->driver().ctx_get_device(&device) != CUDA_SUCCESS)
    return false;
  const auto known = pitched_memory::known_to_runtime(device, width);
  const Bytes bytes = known ? known->bytes(width, height) : 0;
  const Address address = bytes == 0 ? 0 : hit(*core, bytes);
  if (address == 0) return false;
  *out = reinterpret_cast<void*>(address);
  *pitch = known->pitch;
  return true;
}

bool allocate_pinned(void** out, std::size_t bytes, unsigned flags) {
  Allocator* const core = fast_core_outside_captures();
  if (core == nullptr || out == nullptr || !process::pinned().serves(bytes, flags))
    return false;
  CUcontext const context = current_context(*core);
  void* const buffer =
      context == nullptr ? nullptr : process::pinned().try_allocate(context, bytes, flags);
  if (buffer != nullptr) *out = buffer;
  return buffer != nullptr;
}

bool allocate_async(void** out, std::size_t bytes, CUstream stream, NullStream null) {
  Allocator* const core = fast_core_outside_captures();
  if (core == nullptr || out == nullptr) return false;
  Address address = 0;
  const auto status = async_memory::allocate(*core, stream, null, bytes, &address);
  if (!status || !status->ok()) return false;
  *out = reinterpret_cast<void*>(address);
  return true;
}

bool allocate_from_pool(
    void** out, std::size_t bytes, CUmemoryPool pool, CUstream stream, NullStream null) {
  Allocator* const core = fast_core_outside_captures();
  if (core == nullptr || out == nullptr) return false;
  Address address = 0;
  const auto status = own_pools::allocate(*core, pool, stream, null, bytes, &address);
  if (!status || !status->ok()) return false;
  *out = reinterpret_cast<void*>(address);
  return true;
}

bool free_async(void* block, CUstream stream, NullStream null) {
  Allocator* const core = fast_core_outside_captures();
  if (core == nullptr || block == nullptr) return false;
  return core->try_free_on(reinterpret_cast<Address>(block), stream, null);
}

// Whatever fails on the fast path, the slow path remains. `kHook`: the driver's entry that the
// runtime calls there.
template <auto* kHook, typename Try>
bool quietly(Try attempt) noexcept {
  if (patched::is<kHook>()) [[unlikely]]
    return false;
  try {
    return attempt();
  } catch (...) {
    return false;
  }
}

template <auto* kHook>
Error malloc_async(Call call,
                   const void* caller,
                   void** out,
                   std::size_t bytes,
                   CUstream stream,
                   NullStream null) {
  if (quietly<kHook>([&] { return allocate_async(out, bytes, stream, null); })) return kSuccess;
  return forward<Error(void**, std::size_t, CUstream)>(call, caller, out, bytes, stream);
}

template <auto* kHook>
Error malloc_from_pool(Call call,
                       const void* caller,
                       void** out,
                       std::size_t bytes,
                       CUmemoryPool pool,
                       CUstream stream,
                       NullStream null) {
  if (quietly<kHook>([&] { return allocate_from_pool(out, bytes, pool, stream, null); }))
    return kSuccess;
  return forward<Error(void**, std::size_t, CUmemoryPool, CUstream)>(
      call, caller, out, bytes, pool, stream);
}

template <auto* kHook>
Error free_async(Call call, const void* caller, void* block, CUstream stream, NullStream null) {
  if (quietly<kHook>([&] { return free_async(block, stream, null); })) return kSuccess;
  return forward<Error(void*, CUstream)>(call, caller, block, stream);
}

}  // namespace

CUSTASH_RUNTIME_HOOK(hook_malloc, "cudaMalloc", (void** out, std::size_t bytes));
CUSTASH_RUNTIME_HOOK(hook_free, "cudaFree", (void* block));
CUSTASH_RUNTIME_HOOK(hook_malloc_pitch,
                     "cudaMallocPitch",
                     (void** out, std::size_t* pitch, std::size_t width, std::size_t height));
CUSTASH_RUNTIME_HOOK(hook_malloc_async,
                     "cudaMallocAsync",
                     (void** out, std::size_t bytes, CUstream stream));
CUSTASH_RUNTIME_HOOK(hook_malloc_async_ptsz,
                     "cudaMallocAsync_ptsz",
                     (void** out, std::size_t bytes, CUstream stream));
CUSTASH_RUNTIME_HOOK(hook_malloc_from_pool,
                     "cudaMallocFromPoolAsync",
                     (void** out, std::size_t bytes, CUmemoryPool pool, CUstream stream));
CUSTASH_RUNTIME_HOOK(hook_malloc_from_pool_ptsz,
                     "cudaMallocFromPoolAsync_ptsz",
                     (void** out, std::size_t bytes, CUmemoryPool pool, CUstream stream));
CUSTASH_RUNTIME_HOOK(hook_free_async, "cudaFreeAsync", (void* block, CUstream stream));
CUSTASH_RUNTIME_HOOK(hook_free_async_ptsz,
                     "cudaFreeAsync_ptsz",
                     (void* block, CUstream stream));

CUSTASH_RUNTIME_HOOK(hook_malloc_host, "cudaMallocHost", (void** out, std::size_t bytes));
CUSTASH_RUNTIME_HOOK(hook_host_alloc,
                     "cudaHostAlloc",
                     (void** out, std::size_t bytes, unsigned flags));
CUSTASH_RUNTIME_HOOK(hook_free_host, "cudaFreeHost", (void* buffer));

Error hook_malloc(void** out, std::size_t bytes) noexcept {
  Allocator* const core = fast_core();
  if (core != nullptr && out != nullptr && bytes != 0) {
    Address address = 0;
    if (quietly<hook_cuMemAlloc_v2>([&] { return (address = hit(*core, bytes)) != 0; })) {
      *out = reinterpret_cast<void*>(address);
      return kSuccess;
    }
  }
  return forward<Error(void**, std::size_t)>(Call::Malloc, CUSTASH_CALLER, out, bytes);
}

Error hook_free(void* block) noexcept {
  Allocator* const core = fast_core();
  const auto address = reinterpret_cast<Address>(block);
  if (core != nullptr && block != nullptr &&
      quietly<hook_cuMemFree_v2>([&] { return core->try_free(address); })) {
    return kSuccess;
  }
  return forward<Error(void*)>(Call::Free, CUSTASH_CALLER, block);
}

Error hook_malloc_pitch(void** out,
                        std::size_t* pitch,
                        std::size_t width,
                        std::size_t height) noexcept {
  if (quietly<hook_cuMemAllocPitch_v2>(
          [&] { return allocate_rows(out, pitch, width, height); }))
    return kSuccess;
  const pitched_memory::FromRuntime asking;
  return forward<Error(void**, std::size_t*, std::size_t, std::size_t)>(
      Call::MallocPitch, CUSTASH_CALLER, out, pitch, width, height);
}

Error hook_malloc_async(void** out, std::size_t bytes, CUstream stream) noexcept {
  return malloc_async<hook_cuMemAllocAsync>(
      Call::MallocAsync, CUSTASH_CALLER, out, bytes, stream, NullStream::Legacy);
}

Error hook_malloc_async_ptsz(void** out, std::size_t bytes, CUstream stream) noexcept {
  return malloc_async<hook_cuMemAllocAsync_ptsz>(
      Call::MallocAsyncPtsz, CUSTASH_CALLER, out, bytes, stream, NullStream::PerThread);
}

Error hook_malloc_from_pool(void** out,
                            std::size_t bytes,
                            CUmemoryPool pool,
                            CUstream stream) noexcept {
  return malloc_from_pool<hook_cuMemAllocFromPoolAsync>(
      Call::MallocFromPoolAsync, CUSTASH_CALLER, out, bytes, pool, stream, NullStream::Legacy);
}

Error hook_malloc_from_pool_ptsz(void** out,
                                 std::size_t bytes,
                                 CUmemoryPool pool,
                                 CUstream stream) noexcept {
  return malloc_from_pool<hook_cuMemAllocFromPoolAsync_ptsz>(Call::MallocFromPoolAsyncPtsz,
                                                             CUSTASH_CALLER,
                                                             out,
                                                             bytes,
                                                             pool,
                                                             stream,
                                                             NullStream::PerThread);
}

Error hook_free_async(void* block, CUstream stream) noexcept {
  return free_async<hook_cuMemFreeAsync>(
      Call::FreeAsync, CUSTASH_CALLER, block, stream, NullStream::Legacy);
}

Error hook_free_async_ptsz(void* block, CUstream stream) noexcept {
  return free_async<hook_cuMemFreeAsync_ptsz>(
      Call::FreeAsyncPtsz, CUSTASH_CALLER, block, stream, NullStream::PerThread);
}

Error hook_malloc_host(void** out, std::size_t bytes) noexcept {
  if (quietly<hook_cuMemHostAlloc>([&] { return allocate_pinned(out, bytes, 0); }))
    return kSuccess;
  return forward<Error(void**, std::size_t)>(Call::MallocHost, CUSTASH_CALLER, out, bytes);
}

Error hook_host_alloc(void** out, std::size_t bytes, unsigned flags) noexcept {
  // Noted here because the runtime may ask the driver for mapped memory whatever flags the
  // program passed.
  if (Allocator* const core = fast_core();
      core != nullptr && (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0)
    (void)quietly<hook_cuMemHostAlloc>(
        [&] { return Submission::kernels_become_host_visible(*core, "cudaHostAlloc"), true; });
  if (quietly<hook_cuMemHostAlloc>([&] { return allocate_pinned(out, bytes, flags); }))
    return kSuccess;
  return forward<Error(void**, std::size_t, unsigned)>(
      Call::HostAlloc, CUSTASH_CALLER, out, bytes, flags);
}

Error hook_free_host(void* buffer) noexcept {
  if (buffer != nullptr && fast_core_outside_captures() != nullptr &&
      quietly<hook_cuMemFreeHost>([&] { return process::pinned().try_free(buffer); })) {
    return kSuccess;
  }
  return forward<Error(void*)>(Call::FreeHost, CUSTASH_CALLER, buffer);
}

}  // namespace custash::runtime
