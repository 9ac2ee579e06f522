// SPDX-License-Identifier: MIT
// Pages that leave the process: shareable handles, also of another simulator's memory, and
// handles of an address range.
#include "tests/sim/entry.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/machine.hpp"

#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace custash::sim {
namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr std::uint64_t kExported = 0x4350'5653'494d'5531;

// What the file of a shareable handle holds.
struct Exported {
  std::uint64_t magic = 0;
  pid_t process = 0;
  int file = -1;  // of the exporter's device memory, there
  Handle handle = 0;
  std::uint64_t physical = 0;
  Bytes size = 0;
  std::uint64_t machine = 0;
  int device = 0;  // as the machine calls it
  CUmemAllocationProp properties = {};
};

// Of a device that this process does not see.
constexpr int kHidden = -2;

// Another simulator's memory, through its file, which the exporter must be there to open. Its
// device need not be one that this process sees: two H200s gave it so (tests/process/ipc.py).
CUresult import_foreign(Frame& f, Handle* out, const Exported& content) {
  World& w = f.world;
  int device = 0;
  while (device < w.options.devices && physical_device(w, device) != content.device)
    ++device;
  if (!w.space.data() || content.machine != machine_number(w)) return CUDA_ERROR_INVALID_VALUE;
  const std::string path =
      "/proc/" + std::to_string(content.process) + "/fd/" + std::to_string(content.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  auto handle = std::make_unique<PhysicalHandle>();
  handle->device = device < w.options.devices ? device : kHidden;
  handle->size = content.size;
  handle->physical = w.space.make_physical(content.size);  // a number of its own
  handle->references = 1;
  handle->file = file;
  handle->offset = content.physical;
  handle->properties = content.properties;
  handle->properties.location.id = handle->device;
  *out = w.handles.add<Handle>(std::move(handle));
  return CUDA_SUCCESS;
}

CUresult export_handle(Frame& f, void* out, Handle handle, CUmemAllocationHandleType type) {
  World& w = f.world;
  PhysicalHandle* h = w.handles.get(handle);
  if (out == nullptr || h == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((h->properties.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = memfd_create("shareable handle", MFD_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const Exported content{kExported,
                         getpid(),
                         w.space.file(),
                         handle,
                         h->physical,
                         h->size,
                         machine_number(w),
                         physical_device(w, h->device),
                         h->properties};
  if (h->file >= 0 || pwrite(fd, &content, sizeof content, 0) != sizeof content) {
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  h->exported = true;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult import_handle(Frame& f, Handle* out, void* shared, CUmemAllocationHandleType type) {
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  Exported content;
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shared));
  if (pread(fd, &content, sizeof content, 0) != sizeof content || content.magic != kExported)
    return CUDA_ERROR_INVALID_VALUE;
  if (content.process != getpid()) return import_foreign(f, out, content);
  PhysicalHandle* h = f.world.handles.get(content.handle);
  if (h == nullptr || h->physical != content.physical) return CUDA_ERROR_INVALID_VALUE;
  ++h->references;
  *out = content.handle;
  return CUDA_SUCCESS;
}

// A range may lie in several mapped handles, as on an H200; other memory is one allocation.
bool is_whole(World& w, Address address, Bytes bytes) {
  const Address end = address + bytes;
  for (Address at = address; at < end;) {
    const Region* const region = region_at(w, at);
    if (region == nullptr) return false;
    at = region->base + region->size;
    if (at < end && region->origin != Origin::Vmm) return false;
    // The descriptor keeps the memory.
    if (region->origin == Origin::Vmm) w.handles.get(region->handle)->exported = true;
  }
  return true;
}

}  // namespace

SIM_ENTRY_IS(
    cuMemExportToShareableHandle,
    Context,
    (void* out, Handle handle, CUmemAllocationHandleType type, unsigned long long flags),
    export_handle(f, out, handle, type))
SIM_ENTRY_IS(cuMemImportFromShareableHandle,
             Context,
             (Handle * out, void* shared, CUmemAllocationHandleType type),
             import_handle(f, out, shared, type))

SIM_ENTRY(cuMemGetHandleForAddressRange,
          (void* out, CUdeviceptr address, size_t bytes, int type, unsigned long long flags)) {
  return SIM_CALL(cuMemGetHandleForAddressRange, Context) {
    if (out == nullptr || bytes == 0 || address % 4_KiB != 0 || bytes % 4_KiB != 0 ||
        !is_whole(f.world, address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    const int fd = memfd_create("address range", MFD_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
