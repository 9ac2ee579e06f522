// SPDX-License-Identifier: MIT
// A program that opens libcuda.so.1 as programs do, launches a kernel of libcuda_kernels.so,
// and asks again when the driver has gone. Exits with 1 and a line for each thing that is not
// as told.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

namespace {

void* library = nullptr;
int mistakes = 0;

template <typename Fn>
Fn entry(const char* name) {
  return reinterpret_cast<Fn>(dlsym(library, name));
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  ++mistakes;
}

using Free = CUresult (*)(CUdeviceptr);

// Built before the driver's exit handler is registered, so destroyed after it has run.
struct Late {
  ~Late() {
    if (library == nullptr) return;
    if (entry<Free>("cuMemFree_v2")(0) == CUDA_ERROR_DEINITIALIZED) return;
    std::fprintf(stderr, "wrong: the driver answers after its end\n");
    std::_Exit(1);
  }
} late;

void run_kernel(CUcontext context) {
  CUmodule module = nullptr;
  CUfunction fn = nullptr;
  CUdeviceptr p = 0;
  const unsigned n = 1000;
  expect(entry<CUresult (*)(CUmodule*, const void*)>("cuModuleLoadData")(&module, "image") == 0,
         "load");
  expect(entry<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction")(
             &fn, module, "add_index") == 0,
         "find");
  expect(entry<CUresult (*)(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(
             &p, n * sizeof(unsigned)) == 0,
         "allocate");
  expect(
      entry<CUresult (*)(CUdeviceptr, unsigned, std::size_t)>("cuMemsetD32_v2")(p, 5, n) == 0,
      "fill");
  unsigned count = n;
  void* args[] = {&p, &count};
  expect(entry<CUresult (*)(CUfunction,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            CUstream,
                            void**,
                            void**)>("cuLaunchKernel")(
             fn, 4, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr) == 0,
         "launch");
  count = 0;  // copied at the launch
  std::vector<unsigned> back(n);
  expect(entry<CUresult (*)(void*, CUdeviceptr, std::size_t)>("cuMemcpyDtoH_v2")(
             back.data(), p, n * sizeof(unsigned)) == 0,
         "copy");
  for (unsigned i = 0; i < n; ++i)
    expect(back[i] == 5 + i, "the kernel's sums");
  expect(entry<Free>("cuMemFree_v2")(p) == 0, "free");
}

}  // namespace

int main() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CUcontext context = nullptr;
  expect(entry<Free>("cuMemFree_v2")(0) == CUDA_ERROR_NOT_INITIALIZED, "3 before cuInit");
  expect(entry<CUresult (*)(unsigned)>("cuInit")(0) == 0, "cuInit");
  expect(
      entry<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0,
      "retain");
  expect(entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context) == 0, "make current");
  std::size_t free = 0;
  std::size_t total = 0;
  expect(entry<CUresult (*)(std::size_t*, std::size_t*)>("cuMemGetInfo_v2")(&free, &total) == 0,
         "memory");
  expect(total == std::size_t{1} << 30, "memory=1g of CUSTASH_SIM");
  run_kernel(context);
  return mistakes == 0 ? 0 : 1;
}
