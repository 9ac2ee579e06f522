// SPDX-License-Identifier: MIT
// Sizes, pointers and flags that no call takes, and errors that stay.
#include "tests/conformance/cases.hpp"

#include <thread>

namespace conformance {
namespace {

const auto alloc = CU(cuMemAlloc_v2, cuMemAlloc);
const auto free_it = CU(cuMemFree_v2, cuMemFree);

}  // namespace

CASE(errors_sizes_runtime) {
  void* p = &p;
  SAY(cudaMalloc(&p, 0));
  SAY_WITH_LAST(p == nullptr);
  p = &p;
  SAY(cudaMalloc(&p, kTooLarge));
  SAY(p == nullptr);
  SAY_WITH_LAST(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY_WITH_LAST(cudaMalloc(&p, ~std::size_t{0}));
  SAY_WITH_LAST(cudaMalloc(&p, ~std::size_t{0} - 511));
  SAY_WITH_LAST(cudaMalloc(static_cast<void**>(nullptr), 512));
  SAY_WITH_LAST(cudaMalloc(static_cast<void**>(nullptr), 0));
  SAY(cudaMalloc(&p, 1));
  SAY(address(p) % 512);
  SAY_WITH_LAST(cudaFree(p));
}

CASE(errors_sizes_driver) {
  SAY(cudaFree(nullptr));
  CUdeviceptr p = 99;
  SAY(alloc(&p, std::size_t{0}));
  SAY(p == 99);
  SAY(alloc(&p, kTooLarge));
  SAY(p == 99);
  SAY(alloc(&p, ~std::size_t{0}));
  SAY(alloc(static_cast<CUdeviceptr*>(nullptr), std::size_t{512}));
  SAY(alloc(static_cast<CUdeviceptr*>(nullptr), std::size_t{0}));
  SAY(free_it(CUdeviceptr{0}));
  SAY_WITH_LAST(free_it(CUdeviceptr{512}));
}

// Programs test the address instead of the code.
CASE(errors_outputs_of_calls_that_fail) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  CUmemoryPool pool = nullptr;
  SAY(CU(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)(&pool, 0));
  const auto said = [](CUdeviceptr p) { return p == 0 || p == 99 ? p : 1; };
  const auto handle = static_cast<CUstream>(stream.handle);
  CUdeviceptr p = 99;
  SAY(CU(cuMemAllocAsync, cuMemAllocAsync)(&p, kTooLarge, handle));
  SAY(said(p));
  p = 99;
  SAY(CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync)(&p, kTooLarge, pool, handle));
  SAY(said(p));
  p = 99;
  SAY(alloc(&p, kTooLarge));
  SAY(said(p));
  for (const auto allocate :
       {+[](void**out, cudaStream_t) { return cudaMalloc(out, kTooLarge); },
        +[](void**out, cudaStream_t) { return cudaMallocHost(out, kTooLarge); },
        +[](void**out, cudaStream_t) { return cudaHostAlloc(out, kTooLarge, 0); },
        +[](void**out, cudaStream_t s) { return cudaMallocAsync(out, kTooLarge, s); }}) {
    void* out = reinterpret_cast<void*>(99);
    SAY(allocate(&out, stream));
    SAY_WITH_LAST(said(address(out)));
  }
}

CASE(errors_frees) {
  SAY(cudaFree(nullptr));
  for (const std::size_t bytes : {std::size_t{100}, 100 * kKiB, 5 * kMiB, 50 * kMiB}) {
    void* p = nullptr;
    SAY(cudaMalloc(&p, bytes));
    SAY_WITH_LAST(cudaFree(at(p, 1)));
    SAY_WITH_LAST(cudaFree(at(p, bytes - 1)));
    SAY(free_it(address(p) + bytes / 2));
    SAY(cudaFree(p));
    SAY(cudaFree(p));
    SAY_WITH_LAST(cudaPeekAtLastError());
    SAY(free_it(address(p)));
    SAY(free_it(address(p) + 512));
  }
  int own = 0;
  SAY_WITH_LAST(cudaFree(&own));
  void* pinned = nullptr;
  SAY(cudaMallocHost(&pinned, 4096));
  SAY_WITH_LAST(cudaFree(pinned));
  SAY(cudaFreeHost(pinned));
}

// Freed by whichever call, by whichever thread: once.
CASE(errors_frees_by_other_calls) {
  const Stream stream;
  void* p = nullptr;
  SAY(cudaMalloc(&p, 70000));
  SAY_WITH_LAST(cudaFreeHost(p));
  std::thread([p] { SAY(cudaFree(p)); }).join();
  SAY_WITH_LAST(cudaFree(p));
  SAY_WITH_LAST(cudaFreeAsync(p, stream));
  SAY(cudaMallocAsync(&p, 70000, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaFree(p));
  SAY_WITH_LAST(cudaFree(p));
  SAY_WITH_LAST(cudaFreeAsync(nullptr, stream));
}

// A last error is a thread's own, and a success leaves it.
CASE(errors_last_error_stays) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, kTooLarge));
  SAY(cudaMalloc(&p, 512));
  SAY(cudaPeekAtLastError());
  SAY(cudaFree(p));
  SAY(cudaPeekAtLastError());
  SAY(cudaMalloc(&p, 512));
  std::thread([] { SAY(cudaPeekAtLastError()); }).join();
  SAY_WITH_LAST(cudaFree(p));
  SAY(cudaGetLastError());
}

// No context, no driver: before the first call that makes one.
CASE(errors_before_a_context) {
  CUdeviceptr p = 0;
  std::size_t bytes = 0;
  void* host = nullptr;
  SAY(CU(cuCtxSetCurrent, cuCtxSetCurrent)(CUcontext{nullptr}));
  SAY(alloc(&p, std::size_t{512}));
  SAY(free_it(CUdeviceptr{0}));
  SAY(free_it(CUdeviceptr{4096}));
  SAY(CU(cuMemGetInfo_v2, cuMemGetInfo)(&bytes, &bytes));
  SAY(CU(cuMemHostAlloc, cuMemHostAlloc)(&host, std::size_t{512}, 0U));
  SAY(CU(cuMemAllocAsync, cuMemAllocAsync)(&p, std::size_t{512}, CUstream{nullptr}));
}

CASE(errors_flags) {
  void* p = nullptr;
  SAY_WITH_LAST(cudaMallocManaged(&p, 512, 0));
  SAY_WITH_LAST(cudaMallocManaged(&p, 512, 77));
  SAY(cudaMallocManaged(&p, 512, cudaMemAttachGlobal));
  SAY(cudaFree(p));
  SAY_WITH_LAST(cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
  SAY_WITH_LAST(cudaHostAlloc(&p, 512, 0x100));
}

// A kernel's fault is every later call's answer.
CASE(errors_sticky) {
  void* p = nullptr;
  void* q = nullptr;
  void* host = nullptr;
  const Stream stream;
  SAY(cudaMalloc(&p, 4096));
  SAY(cudaMallocAsync(&q, 4096, stream));
  SAY(cudaDeviceSynchronize());
  SAY(write_words(nullptr, pointer(0x10000), 4, 7));
  SAY(cudaDeviceSynchronize());
  SAY(cudaFree(p));
  SAY(cudaFree(p));
  SAY(cudaMallocAsync(&host, 512, stream));
  SAY(cudaFreeAsync(q, stream));
  SAY(cudaMalloc(&host, 512));
  SAY(cudaMallocHost(&host, 512));
  std::size_t bytes = 0;
  SAY(cudaMemGetInfo(&bytes, &bytes));
  SAY(cudaMemset(p, 1, 16));
  SAY_WITH_LAST(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaFree(nullptr));
}

// Once a call has told of the fault, an allocation tells it, too, be a block of its size at
// hand.
template <typename Tell>
void fault_told_by(Tell tell) {
  void* p = nullptr;
  void* host = nullptr;
  const Stream stream;
  SAY(cudaMalloc(&p, 4096));
  SAY(cudaMallocHost(&host, 4096));
  SAY(cudaFreeHost(host));
  SAY(cudaFree(p));
  SAY(cudaStreamSynchronize(stream));
  SAY(write_words(stream, pointer(0x10000), 4, 7));
  tell(stream);
  SAY(cudaMalloc(&p, 4096));
  SAY_WITH_LAST(cudaMallocHost(&host, 4096));
}

CASE(errors_sticky_told_by_the_device) {
  fault_told_by([](cudaStream_t) { SAY(cudaDeviceSynchronize()); });
}

CASE(errors_sticky_told_by_a_stream) {
  fault_told_by([](cudaStream_t stream) { SAY(cudaStreamSynchronize(stream)); });
}

CASE(errors_sticky_told_by_an_event) {
  cudaEvent_t event = nullptr;
  SAY(cudaEventCreate(&event));
  fault_told_by([event](cudaStream_t stream) {
    (void)cudaEventRecord(event, stream);  // may tell it already
    SAY(cudaEventSynchronize(event));
  });
}

CASE(errors_sticky_told_by_a_query) {
  fault_told_by([](cudaStream_t stream) {
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    }
    SAY(cudaStreamQuery(stream));
  });
}

CASE(errors_sticky_told_by_a_launch) {
  fault_told_by([](cudaStream_t stream) {
    void* const nowhere = pointer(0x10000);
    while (write_words(stream, nowhere, 4, 7) == CUDA_SUCCESS) {
    }
    SAY(write_words(stream, nowhere, 4, 7));
  });
}

// The free that bare CUDA tells it by does not wait here: the next call that does tells it.
CASE(errors_sticky_at_a_free) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, 4096));
  SAY(write_words(nullptr, pointer(0x10000), 4, 7));
  DIFFERS(cudaFree(p) == cudaSuccess, 0, 1);
  SAY_WITH_LAST(cudaDeviceSynchronize());
}

}  // namespace conformance
