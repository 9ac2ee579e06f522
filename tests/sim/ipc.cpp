// SPDX-License-Identifier: MIT
// Handles for other processes. There is no other process here: an own handle opens only where
// Options::same_process_ipc asks for it, as a second mapping of the same memory.
#include "tests/sim/lifetime.hpp"

#include <cstring>

#include <unistd.h>

namespace custash::sim {
namespace {

struct Name {
  std::uint64_t magic;
  std::uint64_t process;
  std::uint64_t buffer;
  Address base;
};

constexpr std::uint64_t kMagic = 0x4350'4953'494d'5531;

CUresult open(Frame& f, CUdeviceptr* out, const CUipcMemHandle& handle) {
  World& w = f.world;
  Name name{};
  std::memcpy(&name, &handle, sizeof name);
  if (out == nullptr || name.magic != kMagic) return CUDA_ERROR_INVALID_VALUE;
  if (!w.options.same_process_ipc) return CUDA_ERROR_INVALID_CONTEXT;
  const auto source = w.regions.find(name.base);
  if (source == w.regions.end() || source->second.buffer_id != name.buffer)
    return CUDA_ERROR_INVALID_VALUE;
  Region region = source->second;
  // The memory is mapped in whole pages; small blocks begin somewhere inside one.
  const Bytes inside = region.physical % 4_KiB;
  const Bytes bytes = align_up(region.size + inside, 2_MiB);
  const Address at = w.space.reserve(bytes, 2_MiB);
  if (at == 0 || !w.space.map(at, bytes, region.physical - inside))
    return CUDA_ERROR_OUT_OF_MEMORY;
  region.base = at + inside;
  region.shared = true;
  region.charged = bytes;
  region.context_id = f.context->id;
  *out = add_region(w, f.thread, region).base;
  return CUDA_SUCCESS;
}

}  // namespace

void drop_alias(World& w, const Region& region) {
  const Address at = align_down(region.base, 2_MiB);
  w.space.unmap(at, region.charged);
  w.space.give_back(at, region.charged);
}

SIM_ENTRY(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address)) {
  return SIM_CALL(cuIpcGetMemHandle, Context) {
    const Region* region = region_at(f.world, address);
    if (out == nullptr || region == nullptr || region->origin != Origin::Alloc ||
        region->shared)
      return CUDA_ERROR_INVALID_VALUE;
    const Name name{
        kMagic, static_cast<std::uint64_t>(getpid()), region->buffer_id, region->base};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags)) {
  return SIM_CALL(cuIpcOpenMemHandle, Context) {
    return open(f, out, handle);
  });
}

SIM_ENTRY(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags)) {
  return SIM_CALL(cuIpcOpenMemHandle_v2, Context) {
    return open(f, out, handle);
  });
}

SIM_ENTRY(cuIpcCloseMemHandle, (CUdeviceptr address)) {
  return SIM_CALL(cuIpcCloseMemHandle, Context) {
    const auto it = f.world.regions.find(address);
    if (it == f.world.regions.end() || !it->second.shared) return CUDA_ERROR_INVALID_VALUE;
    drop_region(f.world, f.thread, address);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuIpcGetEventHandle, (CUipcEventHandle * out, CUevent handle)) {
  return SIM_CALL(cuIpcGetEventHandle, Context) {
    const Event* event = f.world.events.get(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    const Name name{kMagic, static_cast<std::uint64_t>(getpid()), event->serial, 0};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
  });
}

// There is no other process whose event it could be.
SIM_ENTRY(cuIpcOpenEventHandle, (CUevent * out, CUipcEventHandle handle)) {
  return SIM_CALL(cuIpcOpenEventHandle, Context) {
    return CUDA_ERROR_INVALID_CONTEXT;
  });
}

}  // namespace custash::sim
