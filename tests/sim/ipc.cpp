// SPDX-License-Identifier: MIT
// Handles for other processes: in data mode another simulator's memory is mapped through its
// file, found in /proc. An own handle does not open. That the owner keeps the memory is not
// checked across processes.
#include "tests/sim/lifetime.hpp"

#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace custash::sim {
namespace {

struct Name {
  std::uint64_t magic;
  std::uint64_t process;
  std::uint64_t buffer;
  std::uint64_t physical;
  Bytes size;
  int file;
};

static_assert(sizeof(Name) <= sizeof(CUipcMemHandle));

constexpr std::uint64_t kMagic = 0x4350'4953'494d'5531;

// A handle that the context has open already: the same address, once more.
bool open_again(Frame& f, CUdeviceptr* out, const Name& name) {
  for (auto& [base, region] : f.world.regions) {
    if (!region.shared || region.context_id != f.context->home->id ||
        region.source_process != name.process || region.source_buffer != name.buffer)
      continue;
    ++region.opens;
    *out = base;
    return true;
  }
  return false;
}

CUresult add_opened(Frame& f, CUdeviceptr* out, const Name& name, int file) {
  // The memory is mapped in whole pages; small blocks begin somewhere inside one.
  const std::uint64_t inside = name.physical % 4_KiB;
  World& w = f.world;
  const Bytes bytes = align_up(name.size + inside, 2_MiB);
  const Address at = w.space.reserve(bytes, 2_MiB);
  if (at == 0 || !w.space.map(at, bytes, name.physical - inside, file))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Region region;
  region.base = at + inside;
  region.size = region.requested = name.size;
  // Another simulator's bytes are none of our physical numbers.
  region.physical = w.space.make_physical(bytes) + inside;
  region.device = f.context->device;
  region.buffer_id = w.next_serial++;
  region.shared = true;
  region.opens = 1;
  region.source_process = name.process;
  region.source_buffer = name.buffer;
  region.charged = bytes;
  region.context_id = f.context->home->id;
  *out = add_region(w, f.thread, region).base;
  return CUDA_SUCCESS;
}

CUresult open_foreign(Frame& f, CUdeviceptr* out, const Name& name) {
  if (!f.world.space.data()) return CUDA_ERROR_INVALID_VALUE;
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = add_opened(f, out, name, file);
  close(file);  // the mapping stays
  return result;
}

CUresult open(Frame& f, CUdeviceptr* out, const CUipcMemHandle& handle) {
  Name name{};
  std::memcpy(&name, &handle, sizeof name);
  if (out == nullptr || name.magic != kMagic) return CUDA_ERROR_INVALID_VALUE;
  if (open_again(f, out, name)) return CUDA_SUCCESS;
  if (name.process != static_cast<std::uint64_t>(getpid())) return open_foreign(f, out, name);
  return CUDA_ERROR_INVALID_CONTEXT;
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
    const Name name{kMagic,
                    static_cast<std::uint64_t>(getpid()),
                    region->buffer_id,
                    region->physical,
                    region->size,
                    f.world.space.file()};
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_AND_V2(cuIpcOpenMemHandle,
                 Context,
                 (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
                 open(f, out, handle))

SIM_ENTRY(cuIpcCloseMemHandle, (CUdeviceptr address)) {
  return SIM_CALL(cuIpcCloseMemHandle, Context) {
    const auto it = f.world.regions.find(address);
    if (it == f.world.regions.end() || !it->second.shared) return CUDA_ERROR_INVALID_VALUE;
    if (--it->second.opens > 0) return CUDA_SUCCESS;
    drop_region(f.world, f.thread, address);
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
