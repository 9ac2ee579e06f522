// SPDX-License-Identifier: MIT
// The driver as such, its devices and their primary contexts.
#include "tests/sim/lifetime.hpp"
#include "tests/sim/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace custash::sim {
namespace {

DeviceState& state(World& w, CUdevice device) {
  return w.devices[static_cast<std::size_t>(device)];
}

// Attributes by number, since old headers lack some names.
struct Attribute {
  int which;
  int value;
};

constexpr Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {106, 32},  // MAX_BLOCKS_PER_MULTIPROCESSOR
    {115, 1},   // MEMORY_POOLS_SUPPORTED
    {116, 1},   // GPU_DIRECT_RDMA_SUPPORTED
    {119, 1},   // MEMPOOL_SUPPORTED_HANDLE_TYPES: a file descriptor
};

int attribute(const World& w, int which, CUdevice device) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      return w.options.pageable ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
      return w.options.pageable && !w.options.hmm ? 1 : 0;
    case 136:  // CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK
      return w.options.decompress ? 7 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return 0x10 + device;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case 99:  // HOST_REGISTER_SUPPORTED
      return w.options.registration ? 1 : 0;
    case 102:
      return w.options.vmm ? 1 : 0;  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    case 103:
      return w.options.vmm ? 1 : 0;  // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    case 110:
      return w.options.vmm ? 1 : 0;  // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    default:
      break;
  }
  for (const Attribute& known : kAttributes)
    if (known.which == which) return known.value;
  return 0;
}

CUresult uuid(Frame& f, CUuuid* out, CUdevice device) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t machine = machine_number(f.world);
  std::memset(out, 0x5a, sizeof *out);
  std::memcpy(out->bytes, &machine, sizeof machine);
  out->bytes[15] = static_cast<char>(physical_device(f.world, device));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult release_primary(Frame& f, CUdevice device) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceState& d = state(f.world, device);
  if (d.primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--d.primary_references > 0 || f.world.contexts.get(d.primary) == nullptr)
    return CUDA_SUCCESS;
  return destroy_context(f.world, f.thread, d.primary);
}

CUresult retain_primary(Frame& f, CUcontext* out, CUdevice device) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeviceState& d = state(f.world, device);
  ++d.primary_references;
  if (f.world.contexts.get(d.primary) == nullptr)
    make_context(f.world, device, true, d.primary_flags);
  *out = d.primary;
  return CUDA_SUCCESS;
}

namespace {

CUresult reset_primary(Frame& f, CUdevice device) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceState& d = state(f.world, device);
  // The references stay: whoever retained it shall still release it.
  if (f.world.contexts.get(d.primary) == nullptr) return CUDA_SUCCESS;
  return destroy_context(f.world, f.thread, d.primary);
}

CUresult set_flags(Frame& f, CUdevice device, unsigned flags) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  state(f.world, device).primary_flags = flags;
  if (Context* c = f.world.contexts.get(state(f.world, device).primary)) c->flags = flags;
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuDeviceGet,
             Init,
             (CUdevice * out, int ordinal),
             out != nullptr && !known_device(f.world, ordinal) ? CUDA_ERROR_INVALID_DEVICE
                                                               : answer_with(out, ordinal))
SIM_ENTRY_IS(cuDeviceGetCount, Init, (int* out), answer_with(out, f.world.options.devices))

SIM_ENTRY(cuDeviceGetName, (char* name, int length, CUdevice device)) {
  return SIM_CALL(cuDeviceGetName, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<size_t>(length), "Simulated GPU");
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_AND_V2(cuDeviceGetUuid, Init, (CUuuid * out, CUdevice device), uuid(f, out, device))
SIM_ENTRY_IS(cuDeviceTotalMem_v2,
             Init,
             (size_t * out, CUdevice device),
             !known_device(f.world, device) ? CUDA_ERROR_INVALID_DEVICE
                                            : answer_with(out, f.world.options.device_memory))

SIM_ENTRY(cuDeviceGetAttribute, (int* out, CUdevice_attribute which, CUdevice device)) {
  return SIM_CALL(cuDeviceGetAttribute, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (which <= 0) return CUDA_ERROR_INVALID_VALUE;
    return answer_with(out, attribute(f.world, which, device));
  });
}

SIM_ENTRY(cuDeviceComputeCapability, (int* major, int* minor, CUdevice device)) {
  return SIM_CALL(cuDeviceComputeCapability, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (major != nullptr) *major = 9;
    if (minor != nullptr) *minor = 0;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuDeviceGetPCIBusId, (char* out, int length, CUdevice device)) {
  return SIM_CALL(cuDeviceGetPCIBusId, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (out == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
    const auto& visible = f.world.options.visible_devices;
    const int slot = visible.empty() ? device : visible[static_cast<std::size_t>(device)];
    std::snprintf(out, static_cast<size_t>(length), "0000:%02X:00.0", 0x10 + slot);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuDeviceGetByPCIBusId, (CUdevice * out, const char* id)) {
  return SIM_CALL(cuDeviceGetByPCIBusId, Init) {
    if (out == nullptr || id == nullptr || std::strlen(id) < 7) return CUDA_ERROR_INVALID_VALUE;
    const int slot = static_cast<int>(std::strtol(id + 5, nullptr, 16)) - 0x10;
    const auto& visible = f.world.options.visible_devices;
    const auto seen = std::find(visible.begin(), visible.end(), slot);
    const int device = visible.empty() ? slot : static_cast<int>(seen - visible.begin());
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    *out = device;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuDeviceCanAccessPeer,
             Init,
             (int* out, CUdevice device, CUdevice peer),
             !known_device(f.world, device) || !known_device(f.world, peer)
                 ? CUDA_ERROR_INVALID_DEVICE
                 : answer_with(out, device != peer && f.world.options.peers ? 1 : 0))
SIM_ENTRY_IS(cuDeviceGetP2PAttribute,
             Init,
             (int* out, CUdevice_P2PAttribute which, CUdevice device, CUdevice peer),
             !known_device(f.world, device) || !known_device(f.world, peer) || device == peer
                 ? CUDA_ERROR_INVALID_DEVICE
                 : answer_with(out, f.world.options.peers ? 1 : 0))
SIM_ENTRY_IS(cuDevicePrimaryCtxRetain,
             Init,
             (CUcontext * out, CUdevice device),
             retain_primary(f, out, device))
SIM_ENTRY_AND_V2(cuDevicePrimaryCtxRelease, Init, (CUdevice device), release_primary(f, device))
SIM_ENTRY_AND_V2(cuDevicePrimaryCtxReset, Init, (CUdevice device), reset_primary(f, device))
SIM_ENTRY_AND_V2(cuDevicePrimaryCtxSetFlags,
                 Init,
                 (CUdevice device, unsigned flags),
                 set_flags(f, device, flags))

SIM_ENTRY(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* active)) {
  return SIM_CALL(cuDevicePrimaryCtxGetState, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (flags != nullptr) *flags = state(f.world, device).primary_flags;
    if (active != nullptr)
      *active = f.world.contexts.get(state(f.world, device).primary) != nullptr ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
