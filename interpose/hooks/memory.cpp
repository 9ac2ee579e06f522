// SPDX-License-Identifier: MIT
// Plain device memory, and calls after which the host may see the device's work. The driver
// answers zero sizes, null pointers and all memory that is not ours.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "allocator/submission.hpp"
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/host_view.hpp"

namespace custash::handlers {
namespace {

template <typename Real, typename Call>
CUresult free_block(Real real, CUdeviceptr address, Call call) {
  if (address == 0) return call(real);
  if (Allocator* const core = process::core()) {
    const std::optional<Status> status = core->free(address);
    if (!status) return call(real);
    return status->ok() ? CUDA_SUCCESS : hooks::unless_broken(*core, status->code());
  }
  return process::left_behind(address) ? process::driver_says() : call(real);
}

// A kernel that touches managed pages brings them to the device, where they push out other
// managed pages but not cached memory. If the cache fills the device, the kernel faults.
// Failing to release the cache here is harmless.
void make_room(Count bytes) {
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  CUdevice device = 0;
  Count free = 0;
  Count total = 0;
  if (core == nullptr || core->driver().ctx_get_current(&context) != CUDA_SUCCESS ||
      context == nullptr || core->driver().ctx_get_device(&device) != CUDA_SUCCESS ||
      core->driver().mem_get_info(&free, &total) != CUDA_SUCCESS || free >= bytes) {
    return;
  }
  core->trim(device, bytes - free).ignore();
}

// With caching:never, and a limit of all memory.
CUresult alloc_charged(Allocator& core, CUcontext context, CUdeviceptr* out, Count bytes) {
  const CUdevice device = charges::current_device();
  Address address = 0;
  const CUresult result = charges::around(passed::Kind::Plain, device, bytes, [&] {
    return core.allocate(context, bytes, &address).code();
  });
  *out = address;
  if (result == CUDA_SUCCESS)
    passed::table().began(passed::Kind::Plain, address, bytes, context, device);
  return result;
}

}  // namespace

CUresult mem_alloc(Real<CUdeviceptr*, Count> real, NullStream, CUdeviceptr* out, Count bytes) {
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core == nullptr || out == nullptr || bytes == 0 ||
      core->driver().ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) {
    return real(out, bytes);
  }
  Address address = 0;
  if (core->config().caching == Caching::Never && charges::counts(*core))
    return alloc_charged(*core, context, out, bytes);
  const Status status = core->allocate(context, bytes, &address);
  *out = address;  // null where it failed, as the driver has it
  return status.code();
}

CUresult mem_free(Real<CUdeviceptr> real, NullStream, CUdeviceptr address) {
  return free_block(real, address, [address](auto* call) {
    const auto* const begin = reinterpret_cast<const void*>(address);
    Bytes bytes = 0;
    const bool managed = host_ranges::remove(begin, &bytes);
    // Without a cache the program's frees are timed as its allocations are.
    Allocator* const core = process::core();
    const bool uncached = core != nullptr && core->config().caching == Caching::Never;
    const CUresult result = charges::around_free(
        address, [&] { return uncached ? core->driver().mem_free(address) : call(address); });
    if (managed && result != CUDA_SUCCESS) host_ranges::add(begin, bytes);
    return result;
  });
}

// The 32-bit form. No block is that low; one that was would be found.
CUresult mem_free_v1(Real<unsigned> real, NullStream, unsigned address) {
  return free_block(real, address, [address](auto* call) { return call(address); });
}

CUresult mem_alloc_managed(Real<CUdeviceptr*, Count, unsigned> real,
                           NullStream,
                           CUdeviceptr* out,
                           Count bytes,
                           unsigned flags) {
  Allocator* const core = process::core();
  const CUdevice device = charges::current_device();
  const CUresult result = charges::around(passed::Kind::Managed, device, bytes, [&] {
    return hooks::retry_after_trim(real, [&](auto* call) { return call(out, bytes, flags); });
  });
  if (result == CUDA_SUCCESS && !captures::under_way()) make_room(bytes);
  CUcontext context = nullptr;
  if (result == CUDA_SUCCESS && core != nullptr &&
      core->driver().ctx_get_current(&context) == CUDA_SUCCESS)
    passed::table().began(passed::Kind::Managed, *out, bytes, context, device);
  if (result == CUDA_SUCCESS && out != nullptr)
    host_ranges::add(reinterpret_cast<const void*>(*out), bytes);
  return views::note_host_pointer("cuMemAllocManaged", result, Submission::Reach::Addressed);
}

CUresult library_get_managed(Real<CUdeviceptr*, Count*, void*, const char*> real,
                             NullStream,
                             CUdeviceptr* out,
                             Count* bytes,
                             void* library,
                             const char* name) {
  return views::note_host_pointer("cuLibraryGetManaged", real(out, bytes, library, name));
}

}  // namespace custash::handlers
