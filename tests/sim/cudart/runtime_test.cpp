// SPDX-License-Identifier: MIT
// The runtime double over the simulated driver: the values and codes that a program sees, each
// as an H200 with driver 580 and runtime 13.0 gave it.
#include "tests/catch.hpp"

#include <cstring>
#include <thread>
#include <vector>

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

namespace {

// A call's code, and that the last error agrees and is then gone.
bool gives(cudaError_t result, cudaError_t expected) {
  const cudaError_t last = cudaGetLastError();
  UNSCOPED_INFO("gave " << cudaGetErrorName(result) << ", last " << cudaGetErrorName(last));
  return result == expected && last == expected && cudaGetLastError() == cudaSuccess;
}

bool works(cudaError_t result) {
  return gives(result, cudaSuccess);
}

char* allocate(size_t bytes) {
  void* memory = nullptr;
  REQUIRE(works(cudaMalloc(&memory, bytes)));
  REQUIRE(memory != nullptr);
  return static_cast<char*>(memory);
}

void* const kGarbage = reinterpret_cast<void*>(8);

}  // namespace

TEST_CASE("sizes of nothing give no pointer and no error", "[unit][cudart]") {
  void* pointer = kGarbage;
  size_t pitch = 7;
  CHECK(works(cudaMalloc(&pointer, 0)));
  CHECK(pointer == nullptr);
  pointer = kGarbage;
  CHECK(works(cudaMallocHost(&pointer, 0)));
  CHECK(pointer == nullptr);
  pointer = kGarbage;
  CHECK(works(cudaMallocAsync(&pointer, 0, nullptr)));
  CHECK(pointer == nullptr);
  pointer = kGarbage;
  CHECK(works(cudaMallocPitch(&pointer, &pitch, 100, 0)));
  CHECK(pointer == nullptr);
  CHECK(pitch == 0);
  CHECK(works(cudaFree(nullptr)));
  CHECK(works(cudaFreeHost(nullptr)));
  CHECK(works(cudaFreeAsync(nullptr, nullptr)));
}

TEST_CASE("bad frees and bad allocations are told, once", "[unit][cudart]") {
  char* memory = allocate(5000);
  CHECK(gives(cudaFree(memory + 8), cudaErrorInvalidValue));
  CHECK(works(cudaFree(memory)));
  CHECK(gives(cudaFree(memory), cudaErrorInvalidValue));
  CHECK(gives(cudaMalloc(nullptr, 5), cudaErrorInvalidValue));
  void* pointer = kGarbage;
  CHECK(gives(cudaMalloc(&pointer, size_t{1} << 50), cudaErrorMemoryAllocation));
  CHECK(pointer == nullptr);
  CHECK(gives(cudaHostAlloc(&pointer, 4096, 8), cudaErrorInvalidValue));
  int local = 0;
  CHECK(gives(cudaFreeHost(&local), cudaErrorInvalidValue));
}

TEST_CASE("the last error is kept until asked for, for each thread", "[unit][cudart]") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  CHECK(elsewhere == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("work that is not ready is no error", "[unit][cudart]") {
  cudaStream_t stream = nullptr;
  REQUIRE(works(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  char* memory = allocate(1 << 20);
  REQUIRE(works(cudaMemsetAsync(memory, 1, 1 << 20, stream)));
  const cudaError_t state = cudaStreamQuery(stream);
  CHECK((state == cudaSuccess || state == cudaErrorNotReady));
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(works(cudaStreamSynchronize(stream)));
  CHECK(works(cudaStreamQuery(stream)));
  CHECK(works(cudaStreamDestroy(stream)));
  CHECK(works(cudaFree(memory)));
}

TEST_CASE("copies and fills move bytes", "[unit][cudart]") {
  char* memory = allocate(1000);
  std::vector<char> host(1000, 'x');
  CHECK(works(cudaMemset(memory, 7, 1000)));
  CHECK(works(cudaMemcpy(host.data(), memory, 1000, cudaMemcpyDeviceToHost)));
  CHECK(host == std::vector<char>(1000, 7));
  std::memset(host.data(), 'y', 1000);
  CHECK(works(cudaMemcpy(memory, host.data(), 1000, cudaMemcpyDefault)));
  std::vector<char> back(1000);
  CHECK(works(cudaMemcpyAsync(back.data(), memory, 1000, cudaMemcpyDeviceToHost, nullptr)));
  CHECK(works(cudaDeviceSynchronize()));
  CHECK(back == host);
  CHECK(works(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice)));
  CHECK(gives(cudaMemcpy(memory, host.data(), 4, static_cast<cudaMemcpyKind>(9)),
              cudaErrorInvalidMemcpyDirection));
  CHECK(works(cudaFree(memory)));
}

TEST_CASE("pointers are described", "[unit][cudart]") {
  char* memory = allocate(5000);
  cudaPointerAttributes found{};
  REQUIRE(works(cudaPointerGetAttributes(&found, memory + 100)));
  CHECK(found.type == cudaMemoryTypeDevice);
  CHECK(found.device == 0);
  CHECK(found.devicePointer == memory + 100);
  CHECK(found.hostPointer == nullptr);
  REQUIRE(works(cudaFree(memory)));
  REQUIRE(works(cudaPointerGetAttributes(&found, memory)));
  CHECK(found.type == cudaMemoryTypeUnregistered);
  CHECK(found.device == -2);
  CHECK(found.hostPointer == memory);

  void* host = nullptr;
  REQUIRE(works(cudaMallocHost(&host, 5000)));
  REQUIRE(works(cudaPointerGetAttributes(&found, host)));
  CHECK(found.type == cudaMemoryTypeHost);
  CHECK(found.devicePointer == host);
  CHECK(found.hostPointer == host);
  unsigned flags = 0;
  REQUIRE(works(cudaHostGetFlags(&flags, host)));
  CHECK(flags == cudaHostAllocMapped);
  CHECK(works(cudaFreeHost(host)));
}

TEST_CASE("devices are counted and asked", "[unit][cudart]") {
  int count = 0;
  REQUIRE(works(cudaGetDeviceCount(&count)));
  REQUIRE(count >= 1);
  CHECK(gives(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue));
  cudaDeviceProp properties;
  REQUIRE(works(cudaGetDeviceProperties(&properties, 0)));
  CHECK(properties.warpSize == 32);
  CHECK(properties.totalGlobalMem > 0);
  CHECK(gives(cudaGetDeviceProperties(&properties, 99), cudaErrorInvalidDevice));
  int device = -1;
  REQUIRE(works(cudaSetDevice(count - 1)));
  REQUIRE(works(cudaGetDevice(&device)));
  CHECK(device == count - 1);
  std::thread([] {
    int other = -1;
    CHECK(cudaGetDevice(&other) == cudaSuccess);
    CHECK(other == 0);
  }).join();
  REQUIRE(works(cudaSetDevice(0)));
  int runtime = 0;
  CHECK(works(cudaRuntimeGetVersion(&runtime)));
  CHECK(runtime == CUDART_VERSION);
}

TEST_CASE("a reset device serves again", "[unit][cudart]") {
  char* memory = allocate(512);
  REQUIRE(works(cudaDeviceReset()));
  CHECK(gives(cudaFree(memory), cudaErrorInvalidValue));
  CHECK(works(cudaFree(allocate(512))));
}

TEST_CASE("handles and functions that are none are refused", "[unit][cudart]") {
  int local = 0;
  void* arguments[] = {&local};
  const dim3 one{1, 1, 1};
  CHECK(gives(cudaLaunchKernel(&local, one, one, arguments, 0, nullptr),
              cudaErrorInvalidResourceHandle));
  CHECK(gives(cudaLaunchKernel(nullptr, one, one, arguments, 0, nullptr),
              cudaErrorInvalidDeviceFunction));
  CHECK(gives(cudaMemcpyToSymbol(&local, &local, 4, 0, cudaMemcpyHostToDevice),
              cudaErrorInvalidSymbol));
  CHECK(gives(cudaStreamWaitEvent(nullptr, nullptr, 0), cudaErrorInvalidResourceHandle));
  CHECK(gives(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle));
  CHECK(gives(cudaProfilerStart(), cudaSuccess));
  CHECK(gives(cudaCtxResetPersistingL2Cache(), cudaErrorNotSupported));
}

TEST_CASE("a capture refuses what the driver refuses", "[unit][cudart]") {
  cudaStream_t stream = nullptr;
  REQUIRE(works(cudaStreamCreate(&stream)));
  cudaGraph_t graph = nullptr;
  REQUIRE(works(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)));
  void* memory = nullptr;
  CHECK(gives(cudaMalloc(&memory, 512), cudaErrorStreamCaptureUnsupported));
  CHECK(gives(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated));
  CHECK(graph == nullptr);

  REQUIRE(works(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)));
  CHECK(works(cudaMalloc(&memory, 512)));
  CHECK(works(cudaMemsetAsync(memory, 3, 512, stream)));
  REQUIRE(works(cudaStreamEndCapture(stream, &graph)));
  cudaGraphExec_t executable = nullptr;
  REQUIRE(works(cudaGraphInstantiateWithFlags(&executable, graph, 0)));
  CHECK(works(cudaGraphLaunch(executable, stream)));
  CHECK(works(cudaStreamSynchronize(stream)));
  char byte = 0;
  CHECK(works(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost)));
  CHECK(byte == 3);
  CHECK(works(cudaGraphExecDestroy(executable)));
  CHECK(works(cudaGraphDestroy(graph)));
  CHECK(works(cudaFree(memory)));
  CHECK(works(cudaStreamDestroy(stream)));
}

TEST_CASE("codes have NVIDIA's names and texts", "[unit][cudart]") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) ==
        "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorString(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}
