// SPDX-License-Identifier: MIT
#include "tests/process/streams/bed.hpp"

#include <fstream>
#include <iterator>

namespace check_streams {
namespace {

// On a GPU: the kernels of tests/gpu/check_streams_kernels.cu. The simulator takes any image.
std::string image() {
  const char* const path = std::getenv("CUSTASH_TEST_IMAGE");
  if (path == nullptr) return "image";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

CUfunction function(const char* name) {
  static CUmodule module = nullptr;
  if (module == nullptr)
    CALL(cuModuleLoadData, &module, static_cast<const void*>(image().c_str()));
  CUfunction out = nullptr;
  CALL(cuModuleGetFunction, &out, module, name);
  return out;
}

CUdeviceptr plain(std::size_t bytes) {
  CUdeviceptr out = 0;
  CALL(cuMemAlloc_v2, &out, bytes);
  return out;
}

CUdeviceptr on(CUstream s, std::size_t bytes) {
  CUdeviceptr out = 0;
  CALL(cuMemAllocAsync, &out, bytes, s);
  return out;
}

void free_on(CUdeviceptr block, CUstream s) {
  CALL(cuMemFreeAsync, block, s);
}

void launch(CUfunction what, CUstream s, std::initializer_list<const void*> params) {
  need(calls::launch(what, s, params), "cuLaunchKernel");
}

void use(CUdeviceptr block, CUstream s) {
  launch(function("one"), s, {&block});
}

CUevent event() {
  CUevent out = nullptr;
  CALL(cuEventCreate, &out, unsigned{CU_EVENT_DISABLE_TIMING});
  return out;
}

CUevent recorded(CUstream s) {
  const CUevent out = event();
  CALL(cuEventRecord, out, s);
  return out;
}

void wait(CUstream s, CUevent e) {
  CALL(cuStreamWaitEvent, s, e, 0U);
}

void order(CUstream from, CUstream to) {
  wait(to, recorded(from));
}

void* pinned() {
  void* out = nullptr;
  CALL(cuMemHostAlloc, &out, kBytes, 0U);
  return out;
}

void by_struct(CUdeviceptr block, CUstream s) {
  const unsigned number = 1;
  ByValue value{};
  value.nested[2] = reinterpret_cast<void*>(block + 8);
  launch(function("by_value"), s, {&number, &value});
}

void by_struct_often(CUdeviceptr block, CUstream s) {
  for (int i = 0; i < 1000; ++i)
    by_struct(block, s);
}

CUgraphExec executable(CUgraph graph) {
  CUgraphExec out = nullptr;
  CALL(cuGraphInstantiateWithFlags, &out, graph, 0ULL);
  return out;
}

void run(CUgraphExec graph, CUstream s) {
  CALL(cuGraphLaunch, graph, s);
}

}  // namespace check_streams
