// SPDX-License-Identifier: MIT
// Devices, their attributes, peers and limits.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

bool valid(int device) {
  return device >= 0 && device < device_count();
}

}  // namespace

extern "C" cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return record(cudaErrorInvalidValue);
  const Error error = initialise();
  *count = error.ok() ? device_count() : 0;
  return record(error);
}

CUDART_ENTRY_BARE(cudaGetDevice, (int* device), {
  if (device == nullptr) return cudaErrorInvalidValue;
  *device = current_device();
  return cudaSuccess;
})

CUDART_ENTRY_BARE(cudaSetDevice, (int device), { return set_device(device); })

CUDART_ENTRY_BARE(cudaInitDevice, (int device, unsigned, unsigned), {
  CUcontext context = nullptr;
  return primary_context(device, &context);
})

CUDART_ENTRY_BARE(cudaSetDeviceFlags, (unsigned flags), { return set_device_flags(flags); })

CUDART_ENTRY_BARE(cudaGetDeviceFlags, (unsigned* flags), {
  if (flags == nullptr) return cudaErrorInvalidValue;
  int active = 0;
  const CUresult result = cu.primary_ctx_get_state(current_device(), flags, &active);
  *flags |= cudaDeviceMapHost;
  return result;
})

CUDART_ENTRY_BARE(cudaDeviceGetAttribute,
                  (int* value, enum cudaDeviceAttr attribute, int device),
                  {
                    if (!valid(device)) return cudaErrorInvalidDevice;
                    return cu.device_get_attribute(
                        value, static_cast<CUdevice_attribute>(attribute), device);
                  })

CUDART_ENTRY_BARE(cudaDeviceGetPCIBusId, (char* id, int length, int device), {
  if (!valid(device)) return cudaErrorInvalidDevice;
  return cu.device_get_pci_bus_id(id, length, device);
})

CUDART_ENTRY_BARE(cudaDeviceGetByPCIBusId, (int* device, const char* id), {
  return cu.device_get_by_pci_bus_id(device, id);
})

CUDART_ENTRY_BARE(cudaDeviceCanAccessPeer, (int* can, int device, int peer), {
  if (!valid(device) || !valid(peer)) return cudaErrorInvalidDevice;
  return cu.device_can_access_peer(can, device, peer);
})

CUDART_ENTRY_BARE(cudaDeviceGetP2PAttribute,
                  (int* value, enum cudaDeviceP2PAttr attribute, int device, int peer),
                  {
                    if (!valid(device) || !valid(peer)) return cudaErrorInvalidDevice;
                    const auto asked = static_cast<CUdevice_P2PAttribute>(attribute);
                    return cu.device_get_p2p_attribute(value, asked, device, peer);
                  })

CUDART_ENTRY(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), {
  CUcontext context = nullptr;
  const Error error = primary_context(peer, &context);
  if (!error.ok()) return error;
  return cu.ctx_enable_peer_access(context, flags);
})

CUDART_ENTRY(cudaDeviceDisablePeerAccess, (int peer), {
  CUcontext context = nullptr;
  const Error error = primary_context(peer, &context);
  if (!error.ok()) return error;
  return cu.ctx_disable_peer_access(context);
})

CUDART_CALL(cudaDeviceSynchronize, (), ctx_synchronize())

CUDART_ENTRY_BARE(cudaDeviceReset, (), { return reset_device(); })

CUDART_CALL(cudaDeviceGetLimit,
            (size_t * value, enum cudaLimit limit),
            ctx_get_limit(value, static_cast<CUlimit>(limit)))
CUDART_CALL(cudaDeviceSetLimit,
            (enum cudaLimit limit, size_t value),
            ctx_set_limit(static_cast<CUlimit>(limit), value))
CUDART_CALL(cudaDeviceGetStreamPriorityRange,
            (int* least, int* greatest),
            ctx_get_stream_priority_range(least, greatest))

// Profilers are none of the double's business, and no reason to fail a program.
CUDART_ENTRY(cudaProfilerStart, (), { return cudaSuccess; })

CUDART_ENTRY(cudaProfilerStop, (), { return cudaSuccess; })
