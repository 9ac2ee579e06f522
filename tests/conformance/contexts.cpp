// SPDX-License-Identifier: MIT
// Contexts that come and go, with memory in them.
#include "tests/conformance/cases.hpp"
#include "tests/conformance/properties.hpp"

#include <thread>

namespace conformance {
namespace {

const auto alloc = CU(cuMemAlloc_v2, cuMemAlloc);
const auto free_it = CU(cuMemFree_v2, cuMemFree);
const auto fill = CU(cuMemsetD8_v2, cuMemsetD8);
const auto set_current = CU(cuCtxSetCurrent, cuCtxSetCurrent);
const auto current = CU(cuCtxGetCurrent, cuCtxGetCurrent);
const auto destroy = CU(cuCtxDestroy_v2, cuCtxDestroy);
constexpr std::size_t kBytes = 3 * kMiB;

CUresult create(CUcontext* out) {
  return call("cuCtxCreate_v2", out, 0U, CUdevice{0});
}

CUdeviceptr filled(unsigned char value) {
  CUdeviceptr p = 0;
  SAY(alloc(&p, kBytes));
  SAY(fill(p, value, kBytes));
  SAY(call("cuCtxSynchronize"));
  return p;
}

unsigned char first_byte(CUdeviceptr p) {
  unsigned char byte = 0;
  SAY(CU(cuMemcpyDtoH_v2, cuMemcpyDtoH)(static_cast<void*>(&byte), p, std::size_t{1}));
  return byte;
}

}  // namespace

CASE(contexts_reset) {
  for (int round = 0; round < 3; ++round) {
    void* p = nullptr;
    void* q = nullptr;
    void* host = nullptr;
    SAY(cudaMalloc(&p, 5000));
    SAY(cudaMalloc(&q, kBytes));
    SAY(cudaMallocHost(&host, 5000));
    SAY(cudaMemset(q, 1, kBytes));
    SAY(cudaFree(p));
    SAY(cudaDeviceReset());
    SAY_WITH_LAST(cudaFree(q));
    SAY(cudaMalloc(&p, 5000));
    SAY(cudaMemset(p, 2, 5000));
    SAY(wrong_words(p, 4996, 0x02020202));
    SAY(cudaFree(p));
  }
}

// The primary context by the driver's calls, in both forms, with another user and without.
CASE(contexts_primary_release) {
  for (const char* release : {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"}) {
    CUcontext one = nullptr;
    CUcontext two = nullptr;
    SAY(call("cuInit", 0U));
    SAY(call("cuDevicePrimaryCtxRetain", &one, CUdevice{0}));
    SAY(call("cuDevicePrimaryCtxRetain", &two, CUdevice{0}));
    SAY(one == two);
    SAY(set_current(one));
    const CUdeviceptr p = filled(4);
    SAY(call(release, CUdevice{0}));
    SAY(first_byte(p));
    SAY(call(release, CUdevice{0}));
    unsigned flags = 0;
    int active = 9;
    SAY(call("cuDevicePrimaryCtxGetState", CUdevice{0}, &flags, &active));
    SAY(active);
    SAY(call("cuDevicePrimaryCtxRetain", &one, CUdevice{0}));
    SAY(set_current(one));
    SAY(free_it(p));
    const CUdeviceptr q = filled(5);
    SAY(free_it(q));
    SAY(call(release, CUdevice{0}));
  }
}

CASE(contexts_primary_reset) {
  for (const char* reset : {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"}) {
    CUcontext context = nullptr;
    SAY(call("cuInit", 0U));
    SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}));
    SAY(set_current(context));
    const CUdeviceptr p = filled(4);
    SAY(call(reset, CUdevice{0}));
    SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}));
    SAY(set_current(context));
    SAY(free_it(p));
    const CUdeviceptr q = filled(5);
    SAY(first_byte(q));
    SAY(free_it(q));
  }
}

CASE(contexts_several_on_a_device) {
  CUcontext one = nullptr;
  CUcontext two = nullptr;
  SAY(call("cuInit", 0U));
  SAY(create(&one));
  const CUdeviceptr p = filled(1);
  SAY(create(&two));
  const CUdeviceptr q = filled(2);
  SAY(first_byte(p));
  SAY(free_it(p));  // with the other one current
  SAY(free_it(p));
  SAY(set_current(one));
  SAY(first_byte(q));
  const CUdeviceptr r = filled(3);
  SAY(destroy(two));
  SAY(free_it(q));
  SAY(first_byte(r));
  SAY(free_it(r));
  SAY(destroy(one));
  SAY(free_it(r));
}

CASE(contexts_freed_by_another_thread) {
  CUcontext context = nullptr;
  SAY(call("cuInit", 0U));
  SAY(create(&context));
  const CUdeviceptr p = filled(1);
  std::thread([&] {
    auto* mine = reinterpret_cast<CUcontext>(1);  // NOLINT(performance-no-int-to-ptr)
    SAY(current(&mine));
    SAY(mine == nullptr);
    SAY(set_current(context));
    SAY(free_it(p));
    SAY(free_it(p));
  }).join();
  const CUdeviceptr q = filled(2);
  SAY(first_byte(q));
  SAY(free_it(q));
  SAY(destroy(context));
}

// The driver gives a handle again: nothing of the last context that had it may be left.
CASE(contexts_handles_come_again) {
  SAY(call("cuInit", 0U));
  int wrong = 0;
  for (int i = 0; i < 12; ++i) {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
    CUdeviceptr p = 0;
    CUdeviceptr q = 0;
    unsigned char byte = 0;
    wrong += create(&context) != CUDA_SUCCESS;
    wrong += CU(cuStreamCreate, cuStreamCreate)(&stream, 1U) != CUDA_SUCCESS;
    wrong += alloc(&p, kBytes) != CUDA_SUCCESS;
    wrong += CU(cuMemAllocAsync, cuMemAllocAsync)(&q, kBytes, stream) != CUDA_SUCCESS;
    wrong += CU(cuMemsetD8Async, cuMemsetD8Async)(
                 q, static_cast<unsigned char>(i), kBytes, stream) != CUDA_SUCCESS;
    wrong += CU(cuStreamSynchronize, cuStreamSynchronize)(stream) != CUDA_SUCCESS;
    wrong += CU(cuMemcpyDtoH_v2, cuMemcpyDtoH)(static_cast<void*>(&byte), q, std::size_t{1}) !=
             CUDA_SUCCESS;
    wrong += byte != i;
    wrong += CU(cuMemFreeAsync, cuMemFreeAsync)(q, stream) != CUDA_SUCCESS;
    wrong += CU(cuStreamSynchronize, cuStreamSynchronize)(stream) != CUDA_SUCCESS;
    if (i % 2 != 0) wrong += free_it(p) != CUDA_SUCCESS;
    wrong += destroy(context) != CUDA_SUCCESS;
  }
  SAY(wrong);
}

// Stream-ordered memory belongs to a device's pool, not to the context: it outlives it.
CASE(contexts_ordered_memory_outlives_them) {
  CUcontext keep = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr p = 0;
  SAY(call("cuInit", 0U));
  SAY(call("cuDevicePrimaryCtxRetain", &keep, CUdevice{0}));
  SAY(create(&context));
  SAY(CU(cuStreamCreate, cuStreamCreate)(&stream, 1U));
  SAY(CU(cuMemAllocAsync, cuMemAllocAsync)(&p, kBytes, stream));
  SAY(CU(cuMemsetD8Async, cuMemsetD8Async)(p, static_cast<unsigned char>(8), kBytes, stream));
  SAY(CU(cuStreamSynchronize, cuStreamSynchronize)(stream));
  SAY(destroy(context));
  SAY(set_current(keep));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  SAY(CU(cuMemGetAddressRange_v2, cuMemGetAddressRange)(&base, &size, p));
  SAY(base == p);
  SAY(first_byte(p));
  SAY(free_it(p));
  SAY(free_it(p));
}

CASE(contexts_codes) {
  SAY(call("cuInit", 0U));
  SAY(destroy(CUcontext{nullptr}));
  CUcontext context = nullptr;
  SAY(create(&context));
  const CUdeviceptr p = filled(1);
  CUcontext popped = nullptr;
  SAY(CU(cuCtxPopCurrent_v2, cuCtxPopCurrent)(&popped));
  SAY(popped == context);
  CUdeviceptr q = 0;
  SAY(alloc(&q, kBytes));
  GPU_SAYS(free_it(p), CUDA_SUCCESS);  // with none current
  SAY(destroy(context));
}

// Mapped pages outlive their context; whoever gives them back may have none.
CASE(contexts_pages_without_one) {
  cudaFree(nullptr);
  const CUmemAllocationProp properties = properties::of_pages();
  const CUmemAccessDesc access = properties::access_of();
  constexpr std::size_t kPage = 2 * kMiB;
  SAY(set_current(CUcontext{nullptr}));
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr p = 0;
  SAY(CU(cuMemAddressReserve, cuMemAddressReserve)(&p, kPage, 0UL, CUdeviceptr{0}, 0ULL));
  SAY(CU(cuMemCreate, cuMemCreate)(&handle, kPage, &properties, 0ULL));
  SAY(CU(cuMemMap, cuMemMap)(p, kPage, 0UL, handle, 0ULL));
  SAY(CU(cuMemSetAccess, cuMemSetAccess)(p, kPage, &access, 1UL));
  SAY(CU(cuMemUnmap, cuMemUnmap)(p, kPage));
  SAY(CU(cuMemRelease, cuMemRelease)(handle));
  SAY(CU(cuMemAddressFree, cuMemAddressFree)(p, kPage));
}

CASE(memory_of_a_context_ended_by_a_thread_without_one) {
  constexpr std::size_t kMuch = 96 * kMiB;
  cudaFree(nullptr);
  CUcontext primary = nullptr;
  SAY(current(&primary));
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  SAY(cudaMemGetInfo(&before, &total));
  CUcontext context = nullptr;
  SAY(create(&context));
  CUdeviceptr p = 0;
  SAY(alloc(&p, kMuch));
  SAY(fill(p, static_cast<unsigned char>(1), kMuch));
  std::thread([&] { SAY(destroy(context)); }).join();
  SAY(set_current(primary));
  SAY(cudaMemGetInfo(&after, &total));
  SAY(after + kMuch / 2 > before);
}

}  // namespace conformance
