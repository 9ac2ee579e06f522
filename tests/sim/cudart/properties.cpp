// SPDX-License-Identifier: MIT
// cudaGetDeviceProperties under both its names (toolkits 12 call the second): every field that
// is one driver attribute and that all toolkits from 11.8 to 13 have.
#include "tests/sim/cudart/runtime.hpp"

#include <cstring>

using namespace custash::cudart;

namespace {

struct IntegerField {
  int cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

struct SizeField {
  size_t cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr IntegerField kIntegers[] = {
    {&cudaDeviceProp::regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&cudaDeviceProp::maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&cudaDeviceProp::multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&cudaDeviceProp::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {&cudaDeviceProp::canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&cudaDeviceProp::concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&cudaDeviceProp::unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&cudaDeviceProp::memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::streamPrioritiesSupported,
     CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&cudaDeviceProp::regsPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&cudaDeviceProp::pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {&cudaDeviceProp::concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&cudaDeviceProp::cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {&cudaDeviceProp::maxBlocksPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
};

constexpr SizeField kSizes[] = {
    {&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    {&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    {&cudaDeviceProp::sharedMemPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::sharedMemPerBlockOptin,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
};

// What the driver does not know stays 0.
int attribute_of(int device, CUdevice_attribute attribute) {
  int value = 0;
  if (legacy().device_get_attribute(&value, attribute, device) != CUDA_SUCCESS) value = 0;
  return value;
}

void fill_extents(cudaDeviceProp* properties, int device) {
  constexpr CUdevice_attribute kBlock[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                           CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                           CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  constexpr CUdevice_attribute kGrid[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                          CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                          CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = attribute_of(device, kBlock[i]);
    properties->maxGridSize[i] = attribute_of(device, kGrid[i]);
  }
}

cudaError_t fill(cudaDeviceProp* properties, int device) {
  return without_context([=]() -> Error {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    *properties = cudaDeviceProp{};
    const Calls& cu = legacy();
    Error error = cu.device_get_name(properties->name, sizeof properties->name, device);
    if (error.ok()) error = cu.device_total_mem(&properties->totalGlobalMem, device);
    if (!error.ok()) return error;
    CUuuid uuid{};
    if (cu.device_get_uuid(&uuid, device) == CUDA_SUCCESS) {
      std::memcpy(&properties->uuid, &uuid, sizeof uuid);
    }
    for (const IntegerField& row : kIntegers) {
      properties->*row.field = attribute_of(device, row.attribute);
    }
    for (const SizeField& row : kSizes) {
      properties->*row.field = static_cast<size_t>(attribute_of(device, row.attribute));
    }
    fill_extents(properties, device);
#if CUDART_VERSION >= 12000
    properties->memoryPoolsSupported =
        attribute_of(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
#endif
    return cudaSuccess;
  });
}

}  // namespace

#undef cudaGetDeviceProperties

extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return fill(properties, device);
}

extern "C" cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) {
  return fill(properties, device);
}
