// SPDX-License-Identifier: MIT
// What code that nvcc makes calls before main and around a launch. Nothing here loads the
// driver, except a managed variable's first use. Prototypes as in crt/host_runtime.h, which
// only nvcc's own output may include.
#include "tests/sim/cudart/modules.hpp"
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

// What nvcc places in the section .nvFatBinSegment.
struct FatBinaryWrapper {
  int magic;
  int version;
  const void* image;
  void* names;
};

Binary* binary_of(void** handle) {
  return reinterpret_cast<Binary*>(handle);
}

// <<<…>>> may stand in a kernel's own arguments, hence a stack.
struct Configuration {
  unsigned grid[3];
  unsigned block[3];
  size_t shared_bytes;
  cudaStream_t stream;
};

constexpr int kMaxDepth = 4;  // launches inside the arguments of launches
thread_local Configuration configurations[kMaxDepth];
thread_local int depth = 0;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  const auto* given = static_cast<const FatBinaryWrapper*>(wrapper);
  return reinterpret_cast<void**>(add_binary(given->image));
}

void __cudaRegisterFatBinaryEnd(void**) {
}

void __cudaUnregisterFatBinary(void** handle) {
  remove_binary(binary_of(handle));
}

void __cudaRegisterFunction(void** handle,
                            const char* host_function,
                            char*,
                            const char* name,
                            int,
                            void*,
                            void*,
                            void*,
                            void*,
                            int*) {
  add_kernel(binary_of(handle), host_function, name);
}

void __cudaRegisterVar(
    void** handle, char* host_variable, char*, const char* name, int, size_t, int, int) {
  add_variable(binary_of(handle), host_variable, name, nullptr);
}

void __cudaRegisterManagedVar(
    void** handle, void** host_variable, char*, const char* name, int, size_t, int, int) {
  add_variable(binary_of(handle), host_variable, name, host_variable);
}

char __cudaInitModule(void** handle) {
  Error error = initialise();
  if (error.ok()) error = ensure_context();
  if (error.ok()) error = init_managed(binary_of(handle));
  return record(error) == cudaSuccess ? 1 : 0;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  if (depth == kMaxDepth) return 1;
  configurations[depth++] = Configuration{{grid.x, grid.y, grid.z},
                                          {block.x, block.y, block.z},
                                          shared_bytes,
                                          static_cast<cudaStream_t>(stream)};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid,
                                       dim3* block,
                                       size_t* shared_bytes,
                                       void* stream) {
  if (depth == 0) return record(cudaErrorMissingConfiguration);
  const Configuration& top = configurations[--depth];
  *grid = dim3{top.grid[0], top.grid[1], top.grid[2]};
  *block = dim3{top.block[0], top.block[1], top.block[2]};
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(void** kernel, const void* host_function) {
  *kernel = find_kernel(host_function);
  return *kernel != nullptr ? cudaSuccess : record(cudaErrorInvalidDeviceFunction);
}

}  // extern "C"
