// SPDX-License-Identifier: MIT
// Stream-ordered memory, streams that go, and streams of one thread.
#include "tests/conformance/cases.hpp"

#include <thread>
#include <vector>

namespace conformance {
namespace {

constexpr std::size_t kBytes = 3 * kMiB;

// Fills and frees in the stream's order, over and over; what the last fill left, read from it.
long long churn(cudaStream_t stream) {
  long long wrong = 0;
  for (unsigned i = 1; i <= 20; ++i) {
    void* p = nullptr;
    unsigned last[4] = {};
    wrong += cudaMallocAsync(&p, kBytes, stream) != cudaSuccess;
    wrong += cudaMemsetAsync(p, static_cast<int>(i), kBytes, stream) != cudaSuccess;
    wrong +=
        cudaMemcpyAsync(
            last, at(p, kBytes - sizeof last), sizeof last, cudaMemcpyDeviceToHost, stream) !=
        cudaSuccess;
    wrong += cudaFreeAsync(p, stream) != cudaSuccess;
    wrong += cudaStreamSynchronize(stream) != cudaSuccess;
    for (const unsigned word : last)
      wrong += word != i * 0x01010101U;
  }
  return wrong;
}

}  // namespace

CASE(streams_ordered_codes) {
  const Stream stream;
  void* p = &p;
  SAY(cudaMallocAsync(&p, 0, stream));
  SAY_WITH_LAST(p == nullptr);
  SAY_WITH_LAST(cudaMallocAsync(static_cast<void**>(nullptr), 512, stream));
  SAY_WITH_LAST(cudaMallocAsync(&p, kTooLarge, stream));
  SAY(cudaMallocAsync(&p, 512, stream));
  SAY(address(p) % 256);
  SAY_WITH_LAST(cudaFreeAsync(at(p, 8), stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
  CUdeviceptr q = 99;
  SAY(CU(cuMemAllocAsync, cuMemAllocAsync)(&q, std::size_t{0}, CUstream{stream}));
  SAY_WITH_LAST(CU(cuMemFreeAsync, cuMemFreeAsync)(CUdeviceptr{0}, CUstream{stream}));
}

CASE(streams_ordered_contents) {
  const Stream stream;
  SAY(churn(stream));
  SAY(churn(nullptr));
  SAY(churn(cudaStreamLegacy));
  SAY(churn(cudaStreamPerThread));
}

CASE(streams_mixed_calls) {
  const Stream stream;
  void* p = nullptr;
  SAY(cudaMallocAsync(&p, kBytes, stream));
  SAY(cudaMemsetAsync(p, 5, kBytes, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(wrong_words(p, kBytes, 0x05050505));
  SAY(cudaFree(p));
  SAY(cudaMallocAsync(&p, 512, stream));
  SAY(cudaFree(p));
  SAY(cudaDeviceSynchronize());
}

// cudaFreeAsync takes cudaMalloc's memory, too (seen with driver 580).
CASE(streams_free_plain_memory_on_a_stream) {
  const Stream stream;
  void* p = nullptr;
  SAY(cudaMalloc(&p, kBytes));
  const cudaError_t code = cudaFreeAsync(p, stream);
  GPU_SAYS(code, cudaSuccess);
  cudaGetLastError();
  if (code != cudaSuccess) cudaFree(p);
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMalloc(&p, kBytes));
  SAY(cudaFree(p));
}

// From one stream to another behind an event; what the second writes must be what stays.
CASE(streams_across_an_event) {
  const Stream one;
  const Stream two;
  cudaEvent_t event = nullptr;
  SAY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  long long wrong = 0;
  for (int i = 1; i < 20; ++i) {
    void* p = nullptr;
    wrong += cudaMallocAsync(&p, kBytes, one) != cudaSuccess;
    wrong += cudaMemsetAsync(p, 1, kBytes, one) != cudaSuccess;
    wrong += cudaEventRecord(event, one) != cudaSuccess;
    wrong += cudaStreamWaitEvent(two, event, 0) != cudaSuccess;
    wrong += cudaMemsetAsync(p, i, kBytes, two) != cudaSuccess;
    unsigned word = 0;
    wrong += cudaMemcpyAsync(&word, p, 4, cudaMemcpyDeviceToHost, two) != cudaSuccess;
    wrong += cudaFreeAsync(p, two) != cudaSuccess;
    wrong += cudaStreamSynchronize(two) != cudaSuccess;
    wrong += word != static_cast<unsigned>(i) * 0x01010101U;
  }
  SAY(wrong);
  SAY(cudaEventDestroy(event));
}

CASE(streams_destroyed_while_blocks_live) {
  void* live = nullptr;
  void* waiting = nullptr;
  {
    const Stream stream;
    SAY(cudaMallocAsync(&live, kBytes, stream));
    SAY(cudaMallocAsync(&waiting, kBytes, stream));
    SAY(cudaMemsetAsync(live, 9, kBytes, stream));
    SAY(cudaMemsetAsync(waiting, 8, kBytes, stream));
    SAY(cudaFreeAsync(waiting, stream));
  }
  SAY(wrong_words(live, kBytes, 0x09090909));
  const Stream next;
  SAY(cudaFreeAsync(live, next));
  SAY(churn(next));
  SAY(cudaMalloc(&live, kBytes));
  SAY(cudaFree(live));
}

CASE(memory_streams_destroyed_strand_nothing) {
  SAY(cudaFree(nullptr));
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  SAY(churn(cudaStreamPerThread));
  SAY(cudaDeviceSynchronize());
  SAY(cudaMemGetInfo(&before, &total));
  long long wrong = 0;
  for (int i = 0; i < 30; ++i) {
    const Stream stream;
    void* p = nullptr;
    wrong += cudaMallocAsync(&p, 40 * kMiB, stream) != cudaSuccess;
    wrong += cudaMemsetAsync(p, 1, 40 * kMiB, stream) != cudaSuccess;
    wrong += cudaFreeAsync(p, stream) != cudaSuccess;
  }
  SAY(wrong);
  SAY(cudaDeviceSynchronize());
  SAY(cudaMemGetInfo(&after, &total));
  SAY(before - after <= 80 * kMiB || after > before);
}

CASE(streams_of_each_thread) {
  long long wrong[4] = {};
  std::vector<std::thread> threads;
  for (long long& mine : wrong) {
    threads.emplace_back([&mine] {
      mine = churn(nullptr) + churn(cudaStreamPerThread);
      void* p = nullptr;
      mine += cudaMallocAsync(&p, 512, cudaStreamPerThread) != cudaSuccess;
      mine += cudaFreeAsync(p, cudaStreamPerThread) != cudaSuccess;
    });
  }
  for (std::thread& each : threads)
    each.join();
  for (const long long each : wrong)
    SAY(each);
}

CASE(streams_that_are_none) {
  void* p = nullptr;
  SAY(cudaFree(nullptr));
  cudaStream_t gone = nullptr;
  SAY(cudaStreamCreate(&gone));
  SAY(cudaStreamDestroy(gone));
  SAY(cudaMalloc(&p, 512));
  SAY_WITH_LAST(cudaFree(p));
}

CASE(streams_pool_attributes) {
  cudaMemPool_t pool = nullptr;
  cudaMemPool_t current = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  SAY(cudaDeviceGetMemPool(&current, 0));
  SAY(pool == current);
  for (int which = 1; which <= 3; ++which) {
    int value = 99;
    SAY(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(which), &value));
    SAY(value);
  }
  std::uint64_t threshold = 99;
  SAY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  SAY(threshold);
  SAY_WITH_LAST(cudaMemPoolTrimTo(pool, 0));
}

// What the default pool says it holds follows what was taken from it.
CASE(streams_pool_use) {
  const Stream stream;
  cudaMemPool_t pool = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  const auto ask = [&](cudaMemPoolAttr which) {
    std::uint64_t value = 0;
    return cudaMemPoolGetAttribute(pool, which, &value) == cudaSuccess ? value : ~0ULL;
  };
  const std::uint64_t used = ask(cudaMemPoolAttrUsedMemCurrent);
  void* p = nullptr;
  void* q = nullptr;
  SAY(cudaMallocAsync(&p, 4 * kMiB, stream));
  SAY(ask(cudaMemPoolAttrUsedMemCurrent) - used >= 4 * kMiB);
  SAY(cudaMallocAsync(&q, 8 * kMiB, stream));
  SAY(ask(cudaMemPoolAttrUsedMemCurrent) - used >= 12 * kMiB);
  SAY(ask(cudaMemPoolAttrUsedMemHigh) - used >= 12 * kMiB);
  SAY(ask(cudaMemPoolAttrReservedMemCurrent) >= ask(cudaMemPoolAttrUsedMemCurrent));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaFreeAsync(q, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(ask(cudaMemPoolAttrUsedMemCurrent) == used);
  std::uint64_t zero = 0;
  SAY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  SAY(ask(cudaMemPoolAttrUsedMemHigh) == used);
  SAY(cudaMemPoolTrimTo(pool, 0));
  SAY(ask(cudaMemPoolAttrReservedMemCurrent));
}

// Streams of part of a device, where the driver has them (CUDA 12.4).
CASE(streams_of_a_green_context) {
  SAY(cudaFree(nullptr));
  alignas(16) unsigned char whole[512] = {};
  alignas(16) unsigned char part[512] = {};
  unsigned groups = 1;
  void* description = nullptr;
  void* green = nullptr;
  CUstream stream = nullptr;
  constexpr int kMultiprocessors = 1;
  SAY(call("cuDeviceGetDevResource", CUdevice{0}, static_cast<void*>(whole), kMultiprocessors));
  SAY(call("cuDevSmResourceSplitByCount",
           static_cast<void*>(part),
           &groups,
           static_cast<void*>(whole),
           static_cast<void*>(nullptr),
           0U,
           8U));
  SAY(call("cuDevResourceGenerateDesc", &description, static_cast<void*>(part), 1U));
  SAY(call("cuGreenCtxCreate", &green, description, CUdevice{0}, 1U));
  SAY(call("cuGreenCtxStreamCreate", &stream, green, 1U, 0));
  if (stream == nullptr) return;
  SAY(churn(stream));
  void* p = nullptr;
  long long wrong = 0;
  for (int i = 1; i < 20; ++i) {
    wrong += cudaMalloc(&p, kBytes) != cudaSuccess;
    wrong += cudaMemsetAsync(p, i, kBytes, stream) != cudaSuccess;
    if (i % 2 != 0) wrong += wrong_words(p, kBytes, static_cast<unsigned>(i) * 0x01010101U);
    wrong += cudaFree(p) != cudaSuccess;
  }
  SAY(wrong);
  CUcontext inside = nullptr;
  CUcontext before = nullptr;
  SAY(CU(cuCtxGetCurrent, cuCtxGetCurrent)(&before));
  SAY(call("cuCtxFromGreenCtx", &inside, green));
  SAY(CU(cuCtxSetCurrent, cuCtxSetCurrent)(inside));
  CUdeviceptr q = 0;
  SAY(CU(cuMemAlloc_v2, cuMemAlloc)(&q, std::size_t{5000}));
  SAY(CU(cuMemsetD8_v2, cuMemsetD8)(q, static_cast<unsigned char>(3), std::size_t{5000}));
  SAY(CU(cuMemFree_v2, cuMemFree)(q));
  SAY(CU(cuCtxSetCurrent, cuCtxSetCurrent)(before));
  SAY(CU(cuStreamDestroy_v2, cuStreamDestroy)(stream));
  SAY(call("cuGreenCtxDestroy", green));
  SAY(cudaMalloc(&p, kBytes));
  SAY(cudaFree(p));
}

}  // namespace conformance
