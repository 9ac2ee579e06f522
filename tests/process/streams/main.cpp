// SPDX-License-Identifier: MIT
// check_streams: small programs that use memory on several streams, right or wrong in one way
// each. Argument: which. check_streams.py knows what is to be found in each.
// "launches N" launches a kernel N times, "pairs N" allocates and frees a block, and
// "pinned_pairs N" a pinned buffer, for tests/bench/instructions.py.
#include "tests/process/streams/bed.hpp"

#include <cstring>
#include <utility>

using namespace check_streams;

namespace {

template <typename Function>
Function* resolved(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

// The driver's functions are looked up once, as programs do it.
void launches(int count) {
  const auto launch = resolved<decltype(cuLaunchKernel)>("cuLaunchKernel");
  const CUfunction kernel = function("one");
  const CUstream on_it = stream();
  CUdeviceptr block = plain();
  void* params[] = {&block};
  for (int i = 0; i < count; ++i)
    need(launch(kernel, 1, 1, 1, 1, 1, 1, 0, on_it, params, nullptr), "cuLaunchKernel");
}

void pairs(int count) {
  const auto allocate = resolved<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2");
  const auto release = resolved<CUresult(CUdeviceptr)>("cuMemFree_v2");
  for (int i = 0; i < count; ++i) {
    CUdeviceptr block = 0;
    need(allocate(&block, kBytes), "cuMemAlloc_v2");
    need(release(block), "cuMemFree_v2");
  }
}

void pinned_pairs(int count) {
  const auto allocate = resolved<CUresult(void**, std::size_t, unsigned)>("cuMemHostAlloc");
  const auto release = resolved<CUresult(void*)>("cuMemFreeHost");
  for (int i = 0; i < count; ++i) {
    void* buffer = nullptr;
    need(allocate(&buffer, kBytes, 0), "cuMemHostAlloc");
    need(release(buffer), "cuMemFreeHost");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Programs all;
  for (const Programs* const some : {&kFrees, &kGraphs, &kOutside, &kPools, &kOrders, &kRight})
    all.insert(some->begin(), some->end());
  if (argc < 2 || std::strcmp(argv[1], "--list") == 0) {
    for (const auto& each : all)
      std::printf("%s\n", each.first.c_str());
    return 0;
  }
  if (!start_driver()) return 2;
  if (std::strcmp(argv[1], "random") == 0 && argc == 3) {
    random_program(static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  for (const auto& [name, loop] :
       {std::pair("launches", &launches), {"pairs", &pairs}, {"pinned_pairs", &pinned_pairs}}) {
    if (std::strcmp(argv[1], name) != 0 || argc != 3) continue;
    loop(std::atoi(argv[2]));
    return 0;
  }
  const auto found = all.find(argv[1]);
  if (found == all.end()) return 5;
  found->second();
  CALL(cuCtxSynchronize);
  return 0;
}
