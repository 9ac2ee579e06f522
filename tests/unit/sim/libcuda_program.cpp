// SPDX-License-Identifier: MIT
// A program that opens libcuda.so.1 as programs do, and asks again when the driver has gone.
// Exits with 1 and a line for what is not as told.
#include <cstdio>
#include <cstdlib>

#include <cuda.h>
#include <dlfcn.h>

namespace {

using Free = CUresult (*)(CUdeviceptr);
using Init = CUresult (*)(unsigned);

Free release = nullptr;

// Built before the driver's exit handler is registered, so destroyed after it has run.
struct Late {
  ~Late() {
    if (release == nullptr || release(0) == CUDA_ERROR_DEINITIALIZED) return;
    std::fprintf(stderr, "wrong: the driver answers after its end\n");
    std::_Exit(1);
  }
} late;

}  // namespace

int main() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  release = reinterpret_cast<Free>(dlsym(library, "cuMemFree_v2"));
  const auto init = reinterpret_cast<Init>(dlsym(library, "cuInit"));
  return init(0) == CUDA_SUCCESS && release(0) == CUDA_SUCCESS ? 0 : 1;
}
