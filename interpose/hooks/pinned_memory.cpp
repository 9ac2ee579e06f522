// SPDX-License-Identifier: MIT
// Pinned host memory. The driver answers unusual sizes and flags, null pointers and all memory
// that is not ours. Queries about a buffer of ours must not show the segment that holds it.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "allocator/submission.hpp"
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/base/scope.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/service/service.hpp"

#include <atomic>

namespace custash::handlers {
namespace {

Ownership find(const void* host, HostBlockInfo* info) {
  if (process::core() == nullptr) return Ownership::Foreign;
  return process::pinned().find(reinterpret_cast<Address>(host), info);
}

// `call()` makes the driver release the program's own memory.
template <typename Call>
CUresult end_range(void* host, Call call) {
  Bytes bytes = 0;
  const bool known = host_ranges::remove(host, &bytes);
  const CUresult result = call();
  if (known && result != CUDA_SUCCESS) host_ranges::add(host, bytes);
  return result;
}

// `call(real)` is the driver's own allocation.
template <typename Real, typename Call>
CUresult allocate(Real* real, void** out, Count bytes, unsigned flags, Call call) {
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core == nullptr || out == nullptr || !process::pinned().serves(bytes, flags) ||
      core->driver().ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) {
    const CUresult result = hooks::retry_after_trim(real, call);
    if (result == CUDA_SUCCESS && out != nullptr) host_ranges::add(*out, bytes);
    return result;
  }
  *out = process::pinned().try_allocate(context, bytes, flags);
  if (*out != nullptr) return CUDA_SUCCESS;
  const CUresult result = process::pinned().allocate(context, bytes, flags, out).code();
  if (result == CUDA_SUCCESS) service::memory_was_had(*core);
  return result;
}

// Some drivers report small portable buffers as portable, and some do not. So custash queries
// this driver once, with a buffer of its own. The buffer stays, because freeing it would wait
// for the device.
bool tells_small_portable(Real<unsigned*, void*> get_flags) {
  enum class Answer : int { Unknown, No, Yes };
  static constinit std::atomic<Answer> known{Answer::Unknown};
  Allocator* const core = process::core();
  if (known.load() == Answer::Unknown && core != nullptr) {
    const RelaxedCapture relaxed(core->driver());
    constexpr Count kSmall = 512;
    void* buffer = nullptr;
    unsigned flags = 0;
    if (core->driver().mem_host_alloc(&buffer, kSmall, CU_MEMHOSTALLOC_PORTABLE) !=
            CUDA_SUCCESS ||
        get_flags(&flags, buffer) != CUDA_SUCCESS) {
      return true;
    }
    known.store((flags & CU_MEMHOSTALLOC_PORTABLE) != 0 ? Answer::Yes : Answer::No);
  }
  return known.load() != Answer::No;
}

}  // namespace

CUresult host_alloc(
    Real<void**, Count, unsigned> real, NullStream, void** out, Count bytes, unsigned flags) {
  return allocate(real, out, bytes, flags, [&](auto* call) { return call(out, bytes, flags); });
}

CUresult alloc_host(Real<void**, Count> real, NullStream, void** out, Count bytes) {
  return allocate(real, out, bytes, 0, [&](auto* call) { return call(out, bytes); });
}

CUresult free_host(Real<void*> real, NullStream, void* host) {
  if (host == nullptr) return real(host);
  if (process::core() != nullptr) {
    if (process::pinned().try_free(host)) return CUDA_SUCCESS;
    const std::optional<Status> status = process::pinned().free(host);
    return status ? status->code() : end_range(host, [&] { return real(host); });
  }
  return process::left_behind(host) ? process::driver_says() : real(host);
}

CUresult host_get_flags(Real<unsigned*, void*> real, NullStream, unsigned* flags, void* host) {
  HostBlockInfo info;
  switch (flags == nullptr ? Ownership::Foreign : find(host, &info)) {
    case Ownership::Live:
      *flags = info.flags;
      if (info.small && (info.flags & CU_MEMHOSTALLOC_PORTABLE) != 0 &&
          !tells_small_portable(real))
        *flags &= ~static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE);
      return CUDA_SUCCESS;
    case Ownership::Cached:
      return CUDA_ERROR_INVALID_VALUE;
    case Ownership::Foreign:
      break;
  }
  return real(flags, host);
}

CUresult host_get_device_pointer(Real<CUdeviceptr*, void*, unsigned> real,
                                 NullStream,
                                 CUdeviceptr* out,
                                 void* host,
                                 unsigned flags) {
  if (find(host, nullptr) == Ownership::Cached) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = real(out, host, flags);
  // By an address other than the host's, which is the only one that parameters are searched
  // for.
  const bool alias =
      result == CUDA_SUCCESS && out != nullptr && *out != reinterpret_cast<CUdeviceptr>(host);
  return views::note_host_pointer(
      "cuMemHostGetDevicePointer",
      result,
      alias ? Submission::Reach::Unnamed : Submission::Reach::Addressed);
}

// The driver refuses memory that it allocated itself, with another error than for registered
// memory, which ours is.
CUresult host_register(
    Real<void*, Count, unsigned> real, NullStream, void* host, Count bytes, unsigned flags) {
  if (process::core() != nullptr &&
      process::pinned().overlaps(reinterpret_cast<Address>(host), bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result =
      hooks::retry_after_trim(real, [&](auto* call) { return call(host, bytes, flags); });
  if (result == CUDA_SUCCESS) host_ranges::add(host, bytes);
  return (flags & CU_MEMHOSTREGISTER_DEVICEMAP) != 0
             ? views::note_host_pointer(
                   "cuMemHostRegister", result, Submission::Reach::Addressed)
             : result;
}

CUresult host_unregister(Real<void*> real, NullStream, void* host) {
  return find(host, nullptr) == Ownership::Foreign ? end_range(host, [&] { return real(host); })
                                                   : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace custash::handlers
