// SPDX-License-Identifier: MIT
// Calls that allocate for themselves on a device whose memory is all taken by what was freed
// before: bare CUDA has it, a cache must give it back.
#include "tests/conformance/pools_own.hpp"
#include "tests/conformance/properties.hpp"

#include <vector>

namespace conformance {
namespace {

// Takes all that the device gives and frees it; says nothing of how much that is.
void fill_and_free() {
  std::vector<void*> taken;
  for (std::size_t bytes = free_now() & ~(kMiB - 1); bytes >= 2 * kMiB;) {
    void* p = nullptr;
    if (cudaMalloc(&p, bytes) == cudaSuccess) {
      taken.push_back(p);
    } else {
      bytes /= 2;
    }
  }
  cudaGetLastError();
  int wrong = taken.empty() ? 1 : 0;
  for (void* p : taken)
    wrong += cudaFree(p) != cudaSuccess;
  SAY(wrong);
}

std::size_t half() {
  return (free_now() / 2) & ~(2 * kMiB - 1);
}

}  // namespace

CASE(memory_for_pages) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  const CUmemAllocationProp how = properties::of_pages();
  CUmemGenericAllocationHandle handle = 0;
  SAY(CU(cuMemCreate, cuMemCreate)(&handle, half(), &how, 0ULL));
  SAY(CU(cuMemRelease, cuMemRelease)(handle));
}

CASE(memory_for_pitched_rows) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  void* p = nullptr;
  std::size_t pitch = 0;
  SAY(cudaMallocPitch(&p, &pitch, 2 * kMiB, half() / (2 * kMiB)));
  SAY(cudaFree(p));
}

CASE(memory_for_a_pool) {
  const Stream stream;
  fill_and_free();
  cudaMemPool_t own = make_pool();
  void* p = nullptr;
  SAY(cudaMallocFromPoolAsync(&p, half(), own, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolDestroy(own));
}

CASE(memory_for_managed_memory) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  void* p = nullptr;
  SAY(cudaMallocManaged(&p, 64 * kMiB, cudaMemAttachGlobal));
  SAY(write_words(nullptr, p, 16 * kMiB, 5));
  SAY(cudaDeviceSynchronize());
  SAY(cudaFree(p));
}

CASE(memory_for_an_array) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  CUDA_ARRAY3D_DESCRIPTOR what{};
  what.Width = what.Height = 512;  // planes of 4 MiB
  what.Depth = half() / (4 * kMiB);
  what.Format = CU_AD_FORMAT_FLOAT;
  what.NumChannels = 4;
  CUarray array = nullptr;
  SAY(CU(cuArray3DCreate_v2, cuArray3DCreate)(&array, &what));
  SAY(CU(cuArrayDestroy, cuArrayDestroy)(array));
}

CASE(memory_for_streams) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  for (int i = 0; i < 20; ++i) {
    cudaStream_t stream = nullptr;
    SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    SAY(cudaStreamDestroy(stream));
  }
}

CASE(memory_for_a_context) {
  SAY(cudaFree(nullptr));
  fill_and_free();
  CUcontext context = nullptr;
  SAY(call("cuCtxCreate_v2", &context, 0U, CUdevice{0}));
  SAY(CU(cuCtxDestroy_v2, cuCtxDestroy)(context));
}

CASE(memory_for_code) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, 4096));
  fill_and_free();
  SAY(write_words(nullptr, p, 1024, 8));  // loads a module
  SAY(cudaDeviceSynchronize());
  SAY(wrong_words(p, 4096, 8));
  SAY(cudaFree(p));
}

CASE(memory_for_a_graph) {
  const Stream stream;
  void* out = nullptr;
  void* p = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  SAY(cudaMalloc(&out, 4096));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(cudaMallocAsync(&p, 64 * kMiB, stream));
  SAY(cudaMemsetAsync(p, 1, 64 * kMiB, stream));
  SAY(cudaMemcpyAsync(out, p, 4096, cudaMemcpyDeviceToDevice, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  fill_and_free();
  SAY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
  SAY(cudaGraphLaunch(ready, stream));
  SAY(wrong_words(out, 4096, 0x01010101));
  SAY(cudaGraphExecDestroy(ready));
  SAY(cudaGraphDestroy(graph));
  SAY(cudaFree(out));
}

// One's own, of other sizes, on other streams.
CASE(memory_for_another_shape) {
  const Stream one;
  fill_and_free();
  const std::size_t most = half() / 4 * 7;
  void* p = nullptr;
  SAY(cudaMalloc(&p, most));
  SAY(cudaMemset(p, 1, most));
  SAY(cudaFree(p));
  SAY(cudaMallocAsync(&p, most, one));
  SAY(cudaMemsetAsync(p, 1, most, one));
  SAY(cudaFreeAsync(p, one));
  SAY(cudaStreamSynchronize(one));  // the driver's pool gives back at one
  SAY(cudaMalloc(&p, most));
  SAY(cudaFree(p));
}

}  // namespace conformance
