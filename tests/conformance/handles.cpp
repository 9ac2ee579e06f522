// SPDX-License-Identifier: MIT
// Memory that the program makes and maps for itself, arrays, memory of other interfaces, and
// advice for managed memory: the driver serves it, and custash watches.
#include "tests/conformance/cases.hpp"
#include "tests/conformance/properties.hpp"

#include <cstring>
#include <vector>

#include <unistd.h>

namespace conformance {
namespace {

using Handle = CUmemGenericAllocationHandle;

const auto reserve = CU(cuMemAddressReserve, cuMemAddressReserve);
const auto unreserve = CU(cuMemAddressFree, cuMemAddressFree);
const auto create_it = CU(cuMemCreate, cuMemCreate);
const auto map_it = CU(cuMemMap, cuMemMap);
const auto set_access = CU(cuMemSetAccess, cuMemSetAccess);
const auto get_access = CU(cuMemGetAccess, cuMemGetAccess);
const auto unmap = CU(cuMemUnmap, cuMemUnmap);
const auto release = CU(cuMemRelease, cuMemRelease);
const auto retain = CU(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle);
const auto export_it = CU(cuMemExportToShareableHandle, cuMemExportToShareableHandle);
const auto import_it = CU(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle);
const auto properties_of =
    CU(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle);
const auto granularity = CU(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity);

constexpr std::size_t kPage = 2 * kMiB;

CUresult create(Handle* out, std::size_t bytes, bool exportable = false) {
  const CUmemAllocationProp wanted = properties::of_pages(exportable);
  return create_it(out, bytes, &wanted, 0ULL);
}

CUresult map(CUdeviceptr at, std::size_t bytes, Handle handle) {
  const CUmemAccessDesc access = properties::access_of();
  const CUresult mapped = map_it(at, bytes, std::size_t{0}, handle, 0ULL);
  return mapped != CUDA_SUCCESS ? mapped : set_access(at, bytes, &access, std::size_t{1});
}

CUdeviceptr range_of(std::size_t bytes) {
  CUdeviceptr at = 0;
  SAY(reserve(&at, bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL));
  return at;
}

void say_written(CUdeviceptr at, std::size_t bytes, unsigned value) {
  SAY(write_words(nullptr, pointer(at), bytes / sizeof(unsigned), value));
  SAY(wrong_words(pointer(at), bytes, value));
}

}  // namespace

// Where a program asks for addresses, and what the driver makes of it. Only of ranges that
// custash does not ask for.
CASE(handles_hints) {
  constexpr CUdeviceptr kFree = 0x2b6d'4000'0000;
  SAY(cudaFree(nullptr));
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  CUdeviceptr none = 0;
  SAY(reserve(&first, 2 * kPage, std::size_t{0}, kFree, 0ULL));
  SAY(first == kFree);
  SAY(reserve(&second, 2 * kPage, std::size_t{0}, kFree, 0ULL));
  SAY(second == kFree + 2 * kPage);
  SAY(reserve(&none, kPage, std::size_t{0}, kFree + 4096, 0ULL));
  SAY(reserve(&none, kPage, std::size_t{0}, CUdeviceptr{1} << 47U, 0ULL));
  SAY(none);
  Handle handle = 0;
  SAY(create(&handle, kPage));
  SAY(map(first, kPage, handle));
  say_written(first, kPage, 11);
  SAY(unmap(first, kPage));
  SAY(release(handle));
  SAY(unreserve(second, 2 * kPage));
  SAY(unreserve(first, 2 * kPage));
}

CASE(handles_life) {
  SAY(cudaFree(nullptr));
  const CUmemAllocationProp wanted = properties::of_pages();
  std::size_t grain = 0;
  SAY(granularity(&grain, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  SAY(grain);
  Handle handle = 0;
  Handle again = 0;
  const CUdeviceptr at = range_of(4 * kPage);
  SAY(create(&handle, 2 * kPage));
  CUmemAllocationProp told{};
  SAY(properties_of(&told, handle));
  SAY(std::memcmp(&told, &wanted, sizeof told));
  SAY(map(at, 2 * kPage, handle));
  unsigned long long flags = 0;
  SAY(get_access(&flags, &wanted.location, at));
  SAY(flags);
  say_written(at, 2 * kPage, 7);
  SAY(retain(&again, pointer(at + kPage)));
  SAY(again == handle);
  SAY(release(again));
  SAY(map(at + 2 * kPage, 2 * kPage, handle));  // at two addresses
  SAY(cudaDeviceSynchronize());
  SAY(wrong_words(pointer(at + 2 * kPage), 2 * kPage, 7));
  SAY(release(handle));  // while it is mapped
  SAY(unmap(at, 2 * kPage));
  SAY(wrong_words(pointer(at + 2 * kPage), 2 * kPage, 7));
  SAY(unmap(at + 2 * kPage, 2 * kPage));
  SAY(unreserve(at, 4 * kPage));
}

CASE(handles_codes) {
  SAY(cudaFree(nullptr));
  const CUmemAllocationProp wanted = properties::of_pages();
  CUmemAllocationProp nowhere = wanted;
  nowhere.location.id = 1000;
  CUmemAllocationProp unknown = wanted;
  unknown.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  Handle handle = 0;
  SAY(create_it(&handle, std::size_t{0}, &wanted, 0ULL));
  SAY(create_it(&handle, kPage + 1, &wanted, 0ULL));
  SAY(create_it(&handle, kPage, &wanted, 1ULL));
  SAY(create_it(&handle, kPage, &nowhere, 0ULL));
  SAY(create_it(&handle, kPage, &unknown, 0ULL));
  SAY(create_it(&handle, kTooLarge, &wanted, 0ULL));
  SAY(create(&handle, kPage));
  const CUdeviceptr at = range_of(2 * kPage);
  SAY(unmap(at, kPage));
  SAY(map_it(at, 2 * kPage, std::size_t{0}, handle, 0ULL));  // more than it is
  SAY(map(at, kPage, handle));
  SAY(map_it(at, kPage, std::size_t{0}, handle, 0ULL));  // twice
  SAY(unreserve(at, 2 * kPage));                         // while mapped
  SAY(unmap(at, kPage));
  SAY(unmap(at, kPage));
  int file = -1;
  SAY(export_it(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL));
  SAY(release(handle));
  SAY(unreserve(at, 2 * kPage));
}

// Freed memory of custash's and handles of the program come from one device.
CASE(handles_beside_memory) {
  SAY(cudaFree(nullptr));
  const CUdeviceptr at = range_of(16 * kPage);
  long long wrong = 0;
  for (unsigned round = 0; round < 40; ++round) {
    const std::size_t bytes = (1 + round % 3) * kPage;
    void* p = nullptr;
    Handle handle = 0;
    wrong += cudaMalloc(&p, bytes) != cudaSuccess;
    wrong += create(&handle, bytes) != CUDA_SUCCESS;
    wrong += map(at, bytes, handle) != CUDA_SUCCESS;
    wrong += write_words(nullptr, pointer(at), bytes / sizeof(unsigned), round) != CUDA_SUCCESS;
    wrong += write_words(nullptr, p, bytes / sizeof(unsigned), ~round) != CUDA_SUCCESS;
    wrong += wrong_words(pointer(at), bytes, round) != 0;
    wrong += wrong_words(p, bytes, ~round) != 0;
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    wrong += unmap(at, bytes) != CUDA_SUCCESS;
    wrong += release(handle) != CUDA_SUCCESS;
    wrong += cudaFree(p) != cudaSuccess;
  }
  SAY(wrong);
  SAY(unreserve(at, 16 * kPage));
}

CASE(handles_for_others) {
  SAY(cudaFree(nullptr));
  const CUdeviceptr at = range_of(2 * kPage);
  Handle handle = 0;
  Handle imported = 0;
  int file = -1;
  SAY(create(&handle, kPage, true));
  SAY(map(at, kPage, handle));
  say_written(at, kPage, 3);
  SAY(export_it(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL));
  SAY(import_it(&imported,
                reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  SAY(close(file));
  SAY(cudaDeviceSynchronize());
  SAY(unmap(at, kPage));
  SAY(release(handle));
  SAY(create(&handle, kPage, true));  // not what is imported still
  SAY(map(at, kPage, handle));
  say_written(at, kPage, 4);
  SAY(map(at + kPage, kPage, imported));
  SAY(wrong_words(pointer(at + kPage), kPage, 3));
  SAY(cudaDeviceSynchronize());
  SAY(unmap(at, kPage));
  SAY(unmap(at + kPage, kPage));
  SAY(release(handle));
  SAY(release(imported));
  SAY(unreserve(at, 2 * kPage));
}

CASE(handles_in_captures) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  const CUdeviceptr at = range_of(kPage);
  Handle before = 0;
  Handle handle = 0;
  cudaGraph_t graph = nullptr;
  SAY(create(&before, kPage));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(release(before));
  SAY(create(&handle, kPage));
  SAY(map(at, kPage, handle));
  SAY(cudaMemsetAsync(pointer(at), 1, kPage, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphDestroy(graph));
  SAY(unmap(at, kPage));
  SAY(release(handle));
  SAY(unreserve(at, kPage));
}

CASE(handles_after_a_reset) {
  SAY(cudaFree(nullptr));
  Handle handle = 0;
  SAY(create(&handle, kPage));
  SAY(release(handle));
  SAY(cudaDeviceReset());
  SAY(cudaFree(nullptr));
  SAY(create(&handle, kPage));
  const CUdeviceptr at = range_of(kPage);
  SAY(map(at, kPage, handle));
  say_written(at, kPage, 5);
  SAY(cudaDeviceSynchronize());
  SAY(unmap(at, kPage));
  SAY(release(handle));
}

CASE(handles_of_sparse_arrays) {
  SAY(cudaFree(nullptr));
  SAY(call("cuMemMapArrayAsync", static_cast<CUarrayMapInfo*>(nullptr), 1U, CUstream{nullptr}));
  CUDA_ARRAY3D_DESCRIPTOR what{};
  what.Width = what.Height = 64;
  what.Format = CU_AD_FORMAT_FLOAT;
  what.NumChannels = 1;
  what.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray array = nullptr;
  SAY(CU(cuArray3DCreate_v2, cuArray3DCreate)(&array, &what));
  for (int round = 0; round < 2 && array != nullptr; ++round) {
    Handle handle = 0;
    SAY(create(&handle, kPage));
    CUarrayMapInfo place{};
    place.resourceType = CU_RESOURCE_TYPE_ARRAY;
    place.resource.array = array;
    place.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    place.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    place.memHandle.memHandle = handle;
    place.deviceBitMask = 1;
    SAY(call("cuMemMapArrayAsync", &place, 1U, CUstream{nullptr}));
    place.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    place.memHandle.memHandle = 0;
    SAY(call("cuMemMapArrayAsync", &place, 1U, CUstream{nullptr}));
    SAY(cudaDeviceSynchronize());
    SAY(release(handle));
  }
  if (array != nullptr) SAY(CU(cuArrayDestroy, cuArrayDestroy)(array));
}

// Never on a GPU: a multicast object is the whole machine's, and a fault of it may be, too.
CASE(handles_of_multicast) {
  if (!on_simulator()) return;
  SAY(cudaFree(nullptr));
  const auto bind_it = CU(cuMulticastBindMem, cuMulticastBindMem);
  const auto bind_address = CU(cuMulticastBindAddr, cuMulticastBindAddr);
  const auto unbind = CU(cuMulticastUnbind, cuMulticastUnbind);
  const auto make = CU(cuMulticastCreate, cuMulticastCreate);
  const auto add_device = CU(cuMulticastAddDevice, cuMulticastAddDevice);
  const std::size_t none = 0;
  CUmulticastObjectProp what{};
  what.numDevices = 2;
  what.size = 2 * kPage;
  std::size_t grain = 0;
  SAY(CU(cuMulticastGetGranularity, cuMulticastGetGranularity)(
      &grain, &what, CU_MULTICAST_GRANULARITY_MINIMUM));
  SAY(grain);
  Handle object = 0;
  CUmulticastObjectProp odd = what;
  odd.size = kPage + 1;
  SAY(make(&object, &odd));
  odd = what;
  odd.numDevices = 1000;
  SAY(make(&object, &odd));
  SAY(make(&object, &what));
  Handle handle = 0;
  SAY(create(&handle, kPage));
  SAY(add_device(object, CUdevice{0}));
  SAY(add_device(object, CUdevice{0}));
  SAY(add_device(object, CUdevice{1000}));
  SAY(add_device(handle, CUdevice{1}));
  SAY(add_device(object, CUdevice{1}));
  const CUdeviceptr at = range_of(kPage);
  SAY(map(at, kPage, handle));
  void* block = nullptr;  // has no handle
  SAY(cudaMalloc(&block, 2 * kPage));
  SAY(bind_address(object, none, (address(block) + kPage - 1) / kPage * kPage, kPage, 0ULL));
  SAY(cudaFree(block));
  SAY(bind_it(object, none, handle, none, kPage, 1ULL));
  SAY(bind_it(object, kPage / 2, handle, none, kPage, 0ULL));
  SAY(bind_it(object, none, handle, none, 2 * kPage, 0ULL));
  SAY(bind_it(object, 2 * kPage, handle, none, kPage, 0ULL));
  SAY(bind_it(handle, none, handle, none, kPage, 0ULL));
  SAY(bind_it(object, none, handle, none, kPage, 0ULL));
  SAY(bind_it(object, none, handle, none, kPage, 0ULL));  // there is something
  SAY(bind_address(object, kPage, at, kPage, 0ULL));
  SAY(bind_address(object, none, at + kPage, kPage, 0ULL));
  SAY(unbind(object, CUdevice{1}, none, kPage));
  SAY(unbind(object, CUdevice{0}, none, kPage));
  SAY(unbind(object, CUdevice{0}, none, kPage));
  SAY(unmap(at, kPage));
  SAY(release(handle));  // bound still, at its address
  SAY(create(&handle, kPage));
  SAY(map(at, kPage, handle));
  say_written(at, kPage, 9);
  SAY(cudaDeviceSynchronize());
  SAY(unmap(at, kPage));
  SAY(release(handle));
  SAY(release(object));
  SAY(release(object));
  SAY(unreserve(at, kPage));
}

CASE(arrays_life) {
  SAY(cudaFree(nullptr));
  const cudaChannelFormatDesc format{32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array = nullptr;
  SAY(cudaMallocArray(&array, &format, 1000, 100));
  if (array != nullptr) SAY(cudaFreeArray(array));
  array = nullptr;
  SAY(cudaMalloc3DArray(&array, &format, cudaExtent{64, 32, 16}));
  if (array != nullptr) SAY(cudaFreeArray(array));
  array = nullptr;
  SAY(cudaMallocArray(&array, &format, std::size_t{1} << 40, 1));
  cudaMipmappedArray_t levels = nullptr;
  SAY(cudaMallocMipmappedArray(&levels, &format, cudaExtent{256, 256, 0}, 4));
  if (levels != nullptr) SAY(cudaFreeMipmappedArray(levels));
  SAY(cudaFreeArray(nullptr));
  SAY(cudaFreeMipmappedArray(nullptr));
  (void)cudaGetLastError();
  CUDA_ARRAY_DESCRIPTOR what{};
  what.Width = 300;
  what.Height = 20;
  what.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  what.NumChannels = 4;
  CUarray made = nullptr;
  SAY(CU(cuArrayCreate_v2, cuArrayCreate)(&made, &what));
  if (made != nullptr) SAY(CU(cuArrayDestroy, cuArrayDestroy)(made));
  what.NumChannels = 3;  // there are no such
  SAY(CU(cuArrayCreate_v2, cuArrayCreate)(&made, &what));
}

CASE(external_codes) {
  SAY(cudaFree(nullptr));
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  SAY(CU(cuImportExternalMemory, cuImportExternalMemory)(&memory, &what));
  SAY(memory == nullptr);
}

CASE(managed_advice) {
  SAY(cudaFree(nullptr));
  constexpr std::size_t kBytes = 4 * kMiB;
  void* p = nullptr;
  SAY(cudaMallocManaged(&p, kBytes));
  if (p == nullptr) return;
  std::memset(p, 1, kBytes);
  CUmemLocation device{};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  SAY(call("cuMemAdvise_v2", address(p), kBytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  int value = -1;
  SAY(CU(cuMemRangeGetAttribute, cuMemRangeGetAttribute)(
      &value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address(p), kBytes));
  SAY(value);
  void* answers[] = {&value};
  std::size_t sizes[] = {sizeof value};
  CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
  SAY(CU(cuMemRangeGetAttributes, cuMemRangeGetAttributes)(
      answers, sizes, which, std::size_t{1}, address(p), kBytes));
  SAY(value);
  SAY(cudaDeviceSynchronize());
  SAY(cudaFree(p));
}

}  // namespace conformance
