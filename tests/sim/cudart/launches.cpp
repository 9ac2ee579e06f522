// SPDX-License-Identifier: MIT
// Launches, function attributes, occupancy.
#include "tests/sim/cudart/modules.hpp"
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

// What the driver answers of the function behind a kernel's host function or handle.
template <class Call>
Error with_function(const void* function, Call call) {
  CUfunction found = nullptr;
  const Error error = function_of(function, &found);
  return error.ok() ? Error(call(found)) : error;
}

Error launch(const Calls& cu,
             const void* function,
             dim3 grid,
             dim3 block,
             void** arguments,
             size_t shared_bytes,
             cudaStream_t stream) {
  return with_function(function, [&](CUfunction found) {
    return cu.launch_kernel(found,
                            grid.x,
                            grid.y,
                            grid.z,
                            block.x,
                            block.y,
                            block.z,
                            static_cast<unsigned>(shared_bytes),
                            stream,
                            arguments,
                            nullptr);
  });
}

// Layout and numbers of the attributes are the driver's.
static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));

Error launch_configured(const Calls& cu,
                        const cudaLaunchConfig_t* config,
                        const void* function,
                        void** arguments) {
  if (config == nullptr) return cudaErrorInvalidValue;
  CUfunction found = nullptr;
  const Error error = function_of(function, &found);
  if (!error.ok()) return error;
  CUlaunchConfig given{};
  given.gridDimX = config->gridDim.x;
  given.gridDimY = config->gridDim.y;
  given.gridDimZ = config->gridDim.z;
  given.blockDimX = config->blockDim.x;
  given.blockDimY = config->blockDim.y;
  given.blockDimZ = config->blockDim.z;
  given.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  given.hStream = config->stream;
  given.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  given.numAttrs = config->numAttrs;
  return cu.launch_kernel_ex(&given, found, arguments, nullptr);
}

Error attributes_of(cudaFuncAttributes* out, const void* function) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUfunction found = nullptr;
  const Error error = function_of(function, &found);
  if (!error.ok()) return error;
  const auto ask = [found](CUfunction_attribute attribute) {
    int value = 0;
    return legacy().func_get_attribute(&value, attribute, found) == CUDA_SUCCESS ? value : 0;
  };
  *out = cudaFuncAttributes{};
  out->sharedSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  out->constSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  out->localSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  out->maxThreadsPerBlock = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = ask(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = ask(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = ask(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->cacheModeCA = ask(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  out->maxDynamicSharedSizeBytes = ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out->preferredShmemCarveout = ask(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}

}  // namespace

CUDART_ENTRY_BOTH(cudaLaunchKernel,
                  _ptsz,
                  (const void* function,
                   dim3 grid,
                   dim3 block,
                   void** arguments,
                   size_t shared_bytes,
                   cudaStream_t stream),
                  {
                    return launch(cu, function, grid, block, arguments, shared_bytes, stream);
                  })

// What the host stubs of nvcc 12.9 and later call; the kernel is what __cudaGetKernel gave.
CUDART_ENTRY_BOTH(__cudaLaunchKernel,
                  _ptsz,
                  (void* kernel,
                   dim3 grid,
                   dim3 block,
                   void** arguments,
                   size_t shared_bytes,
                   cudaStream_t stream),
                  { return launch(cu, kernel, grid, block, arguments, shared_bytes, stream); })

CUDART_ENTRY_BOTH(cudaLaunchKernelExC,
                  _ptsz,
                  (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                  { return launch_configured(cu, config, function, arguments); })

CUDART_ENTRY_BOTH(cudaLaunchCooperativeKernel,
                  _ptsz,
                  (const void* function,
                   dim3 grid,
                   dim3 block,
                   void** arguments,
                   size_t shared_bytes,
                   cudaStream_t stream),
                  {
                    return with_function(function, [&](CUfunction found) {
                      return cu.launch_cooperative_kernel(found,
                                                          grid.x,
                                                          grid.y,
                                                          grid.z,
                                                          block.x,
                                                          block.y,
                                                          block.z,
                                                          static_cast<unsigned>(shared_bytes),
                                                          stream,
                                                          arguments);
                    });
                  })

CUDART_ENTRY(cudaFuncGetAttributes, (struct cudaFuncAttributes * out, const void* function), {
  return attributes_of(out, function);
})

CUDART_ENTRY(cudaGetFuncBySymbol, (cudaFunction_t * out, const void* function), {
  return function_of(function, out);
})

// A call of the driver's on what it has `found` of the `function`.
#define CUDART_CALL_ON_FUNCTION(name, parameters, ...)                                \
  CUDART_ENTRY(name, parameters, {                                                    \
    return with_function(function, [&](CUfunction found) { return cu.__VA_ARGS__; }); \
  })

CUDART_CALL_ON_FUNCTION(cudaFuncSetAttribute,
                        (const void* function, enum cudaFuncAttribute attribute, int value),
                        func_set_attribute(found,
                                           static_cast<CUfunction_attribute>(attribute),
                                           value))
CUDART_CALL_ON_FUNCTION(cudaFuncSetCacheConfig,
                        (const void* function, enum cudaFuncCache config),
                        func_set_cache_config(found, static_cast<CUfunc_cache>(config)))
CUDART_CALL_ON_FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
                        (int* blocks, const void* function, int threads, size_t shared_bytes),
                        occupancy_blocks(blocks, found, threads, shared_bytes))
CUDART_CALL_ON_FUNCTION(
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    (int* blocks, const void* function, int threads, size_t shared_bytes, unsigned flags),
    occupancy_blocks_with_flags(blocks, found, threads, shared_bytes, flags))
CUDART_CALL_ON_FUNCTION(cudaOccupancyAvailableDynamicSMemPerBlock,
                        (size_t * bytes, const void* function, int blocks, int threads),
                        occupancy_dynamic_shared(bytes, found, blocks, threads))
