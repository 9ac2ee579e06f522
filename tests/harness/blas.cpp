// SPDX-License-Identifier: MIT
// cuBLAS, looked for at run time: not every machine has it, and the simulator's driver could
// not run its kernels. HARNESS_CUBLAS=0 keeps to the harness's own kernel, whose sums are the
// same to the bit everywhere.
#include "tests/harness/ops.hpp"

#include <cstdlib>
#include <map>
#include <string>

#include <dlfcn.h>

namespace custash::harness::blas {
namespace {

using Handle = void*;

// The few of cublas_v2.h's that are needed, by hand: the header may be missing too.
struct Calls {
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, cudaStream_t) = nullptr;
  int (*sgemm)(Handle,
               int,
               int,
               int,
               int,
               int,
               const float*,
               const float*,
               int,
               const float*,
               int,
               const float*,
               float*,
               int) = nullptr;
};

template <typename Function>
void find(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(dlsym(library, name));
}

Calls open() {
  const char* wanted = std::getenv("HARNESS_CUBLAS");
  if (on_simulator() || (wanted != nullptr && std::string(wanted) == "0")) return {};
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Calls calls;
    find(library, "cublasCreate_v2", calls.create);
    find(library, "cublasDestroy_v2", calls.destroy);
    find(library, "cublasSetStream_v2", calls.set_stream);
    find(library, "cublasSgemm_v2", calls.sgemm);
    return calls;
  }
  return {};
}

const Calls& calls() {
  static const Calls found = open();
  return found;
}

void check_blas(int status, const char* what) {
  if (status != 0)
    throw CudaError(cudaErrorUnknown, std::string(what) + ": status " + std::to_string(status));
}

// One handle a device and thread, as cuBLAS wants it; they go with the thread.
class Handles {
 public:
  Handles() = default;

  ~Handles() {
    for (const auto& [device, handle] : handles_)
      (void)calls().destroy(handle);
  }

  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  Handle of(int device) {
    Handle& handle = handles_[device];
    if (handle == nullptr) check_blas(calls().create(&handle), "cublasCreate");
    return handle;
  }

 private:
  std::map<int, Handle> handles_;
};

thread_local Handles handles;

}  // namespace

bool usable() {
  return calls().sgemm != nullptr;
}

// Column-major, where a row-major matrix is its own transpose: out^T = b^T a^T.
void multiply(const MatMul& work, const Stream& stream) {
  use_device(stream.device());
  const Handle handle = handles.of(stream.device());
  check_blas(calls().set_stream(handle, stream.get()), "cublasSetStream");
  const int rows = static_cast<int>(work.rows);
  const int columns = static_cast<int>(work.columns);
  const int inner = static_cast<int>(work.inner);
  const float one = 1;
  const float zero = 0;
  check_blas(calls().sgemm(handle,
                           work.b_transposed,
                           work.a_transposed,
                           columns,
                           rows,
                           inner,
                           &one,
                           work.b,
                           work.b_transposed ? inner : columns,
                           work.a,
                           work.a_transposed ? rows : inner,
                           &zero,
                           work.out,
                           columns),
             "cublasSgemm");
}

}  // namespace custash::harness::blas
