// SPDX-License-Identifier: MIT
// Modules and libraries: names of kernels and of globals. The code in them is not looked at, so
// every name is found; kernels that nobody declared take the default time and touch nothing.
#include "tests/sim/kernels.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/slab.hpp"

#include <cstring>

namespace custash::sim {
namespace {

constexpr Bytes kGlobal = 64_KiB;  // the size of a global is not known here

template <typename Out>
CUresult load(Frame& f, Out* out, std::uint64_t context_id) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<Module>();
  module->context_id = context_id;
  if (const Bytes memory = f.world.options.module_memory; memory != 0 && f.context != nullptr) {
    module->device = f.context->device;
    if (!take_memory(f.world, module->device, memory)) return CUDA_ERROR_OUT_OF_MEMORY;
    module->memory = memory;
  }
  f.charge(50'000);
  *out = (Out)f.world.modules.add<CUmodule>(std::move(module));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult unload(Frame& f, Handle handle) {
  const std::unique_ptr<Module> module = f.world.modules.drop(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->memory != 0) return_memory(f.world, module->device, module->memory);
  for (const auto& [name, function] : module->functions) {
    const std::unique_ptr<KernelInfo> info = f.world.kernels.drop(function);
    if (info != nullptr && info->function != nullptr) f.world.kernels.drop(info->function);
  }
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult function(
    Frame& f, void* out, Handle module, const char* name, bool of_library = false) {
  Module* m = f.world.modules.get(module);
  if (m == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUfunction& known = m->functions[name];
  if (known == nullptr) {
    auto info = std::make_unique<KernelInfo>();
    info->name = name;
    info->body = find_kernel(name);
    info->module = (CUmodule)module;
    info->of_library = of_library;
    known = f.world.kernels.add<CUfunction>(std::move(info));
  }
  std::memcpy(out, &known, sizeof known);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult global(Frame& f,
                CUdeviceptr* out,
                size_t* bytes,
                Handle module,
                const char* name,
                Origin origin = Origin::Alloc) {
  Module* m = f.world.modules.get(module);
  if (m == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Address& known = m->globals[name];
  if (known == 0) {
    SIM_TRY(alloc_device(f, kGlobal, origin, &known));
  }
  if (out != nullptr) *out = known;
  if (bytes != nullptr) *bytes = kGlobal;
  return CUDA_SUCCESS;
}

// Nothing is known of a kernel that nobody declared.
CUresult parameter(
    const KernelInfo* info, bool of_library, size_t index, size_t* offset, size_t* size) {
  if (info == nullptr || info->of_library != of_library) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (info->body == nullptr || info->body->arg_sizes == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  const size_t* sizes = info->body->arg_sizes;
  Bytes at = 0;
  for (size_t i = 0; sizes[i] != 0; ++i) {
    at = align_up(at, alignment_of_argument(sizes[i]));
    if (i == index) {
      *offset = at;
      if (size != nullptr) *size = sizes[i];
      return CUDA_SUCCESS;
    }
    at += sizes[i];
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult active_blocks(int* out, int block) {
  if (out == nullptr || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  *out = block > 1024 ? 0 : 2048 / block;
  return CUDA_SUCCESS;
}

CUresult attribute(int* out, int which) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = 90;
      break;
    default:
      *out = 0;
      break;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuModuleLoad,
             Context,
             (CUmodule * out, const char* path),
             load(f, out, f.context->id))
SIM_ENTRY_IS(cuModuleLoadData,
             Context,
             (CUmodule * out, const void* image),
             load(f, out, f.context->id))
SIM_ENTRY_IS(
    cuModuleLoadDataEx,
    Context,
    (CUmodule * out, const void* image, unsigned n, CUjit_option* options, void** values),
    load(f, out, f.context->id))
SIM_ENTRY_IS(cuModuleLoadFatBinary,
             Context,
             (CUmodule * out, const void* image),
             load(f, out, f.context->id))
SIM_ENTRY_IS(cuModuleUnload, Context, (CUmodule module), unload(f, module))

SIM_ENTRY(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char* name)) {
  load_kernel_libraries();
  return SIM_CALL(cuModuleGetFunction, Context) {
    return function(f, out, module, name);
  });
}

SIM_ENTRY_IS(cuModuleGetGlobal_v2,
             Context,
             (CUdeviceptr * out, size_t* bytes, CUmodule module, const char* name),
             global(f, out, bytes, module, name))

SIM_ENTRY(cuModuleGetLoadingMode, (int* mode)) {
  return SIM_CALL(cuModuleGetLoadingMode, Init) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = 2;  // lazy
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuLibraryLoadData,
             Init,
             (void** out,
              const void* image,
              void* jit,
              void** jit_values,
              unsigned n_jit,
              void* options,
              void** values,
              unsigned n),
             load(f, out, 0))
SIM_ENTRY_IS(cuLibraryLoadFromFile,
             Init,
             (void** out,
              const char* path,
              void* jit,
              void** jit_values,
              unsigned n_jit,
              void* options,
              void** values,
              unsigned n),
             load(f, out, 0))
SIM_ENTRY_IS(cuLibraryUnload, Init, (void* library), unload(f, library))

SIM_ENTRY(cuLibraryGetKernel, (void** out, void* library, const char* name)) {
  load_kernel_libraries();
  return SIM_CALL(cuLibraryGetKernel, Init) {
    return function(f, out, library, name, true);
  });
}

SIM_ENTRY_IS(cuLibraryGetModule,
             Context,
             (CUmodule * out, void* library),
             f.world.modules.get(library) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                     : answer_with(out, (CUmodule)library))
SIM_ENTRY_IS(cuLibraryGetGlobal,
             Context,
             (CUdeviceptr * out, size_t* bytes, void* library, const char* name),
             global(f, out, bytes, library, name))
SIM_ENTRY_IS(cuLibraryGetManaged,
             Context,
             (CUdeviceptr * out, size_t* bytes, void* library, const char* name),
             global(f, out, bytes, library, name, Origin::Managed))

SIM_ENTRY(cuKernelGetFunction, (CUfunction * out, void* kernel)) {
  return SIM_CALL(cuKernelGetFunction, Context) {
    KernelInfo* info = f.world.kernels.get(kernel);
    if (info == nullptr || !info->of_library) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (info->function == nullptr) {
      auto made = std::make_unique<KernelInfo>(*info);
      made->of_library = false;
      info->function = f.world.kernels.add<CUfunction>(std::move(made));
    }
    *out = info->function;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuFuncGetParamInfo,
             Init,
             (CUfunction fn, size_t i, size_t* offset, size_t* size),
             parameter(f.world.kernels.get(fn), false, i, offset, size))
SIM_ENTRY_IS(cuKernelGetParamInfo,
             Init,
             (void* kernel, size_t i, size_t* offset, size_t* size),
             parameter(f.world.kernels.get(kernel), true, i, offset, size))
SIM_ENTRY_IS(cuKernelGetAttribute,
             Init,
             (int* out, CUfunction_attribute which, void* kernel, CUdevice device),
             attribute(out, which))
SIM_ENTRY_IS(cuKernelSetAttribute,
             Init,
             (CUfunction_attribute which, int value, void* kernel, CUdevice device),
             CUDA_SUCCESS)
SIM_ENTRY_IS(cuFuncGetAttribute,
             Init,
             (int* out, CUfunction_attribute which, CUfunction fn),
             attribute(out, which))
SIM_ENTRY_IS(cuFuncSetAttribute,
             Init,
             (CUfunction fn, CUfunction_attribute which, int value),
             CUDA_SUCCESS)
SIM_ENTRY_IS(cuFuncSetCacheConfig, Init, (CUfunction fn, CUfunc_cache config), CUDA_SUCCESS)

SIM_ENTRY(cuFuncGetName, (const char** out, CUfunction fn)) {
  return SIM_CALL(cuFuncGetName, Init) {
    const KernelInfo* info = f.world.kernels.get(fn);
    if (info == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return answer_with(out, info->name.c_str());
  });
}

SIM_ENTRY_IS(cuOccupancyMaxActiveBlocksPerMultiprocessor,
             Init,
             (int* out, CUfunction fn, int block, size_t shared),
             active_blocks(out, block))
SIM_ENTRY_IS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
             Init,
             (int* out, CUfunction fn, int block, size_t shared, unsigned flags),
             active_blocks(out, block))
SIM_ENTRY_IS(cuOccupancyAvailableDynamicSMemPerBlock,
             Init,
             (size_t * out, CUfunction fn, int blocks, int block),
             blocks <= 0 || block <= 0 ? CUDA_ERROR_INVALID_VALUE
                                       : answer_with(out, 233472 / static_cast<size_t>(blocks)))

}  // namespace custash::sim
