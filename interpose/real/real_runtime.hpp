// SPDX-License-Identifier: MIT
// The real CUDA runtimes, where the program's are shared libraries: wheels may each bring their
// own. State: which runtime a caller has, and one address for each of its entries of the fast
// path, found at the first use. Lock free.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuda.h>

namespace custash::runtime {

// cudaError_t and cudaStream_t, without the runtime's header: its inline parts would call it.
using Error = int;

inline constexpr Error kSuccess = 0;
inline constexpr Error kSymbolNotFound = 302;  // cudaErrorSharedObjectSymbolNotFound

enum class Call {
  Malloc,
  Free,
  MallocPitch,
  MallocAsync,
  MallocAsyncPtsz,
  MallocFromPoolAsync,
  MallocFromPoolAsyncPtsz,
  FreeAsync,
  FreeAsyncPtsz,
  MallocHost,
  HostAlloc,
  FreeHost,
  GetVersion,
  Count
};

// The real function of the caller's runtime, which keeps the caller's last error; null when the
// process has no shared runtime. `caller`: an address in its code, or null for any runtime.
void* look_up(Call call, const void* caller) noexcept;

template <typename Function>
Function* function(Call call, const void* caller) noexcept {
  return reinterpret_cast<Function*>(look_up(call, caller));
}

// Order: none, each thread could find it out by itself.
extern std::atomic<int> eager_contexts;  // not known yet while negative
bool find_out_context_is_current() noexcept;

// Whether the runtime makes a device's context current as soon as the device is set (12.0 on).
// An older one waits until the first use, and until then the current context may be another.
inline bool context_is_current() noexcept {
  const int known = eager_contexts.load(std::memory_order_relaxed);
  return known < 0 ? find_out_context_is_current() : known != 0;
}

}  // namespace custash::runtime
