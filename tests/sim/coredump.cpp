// SPDX-License-Identifier: MIT
// What a program has told the driver of core dumps of the GPU. None is ever written.
#include "tests/sim/entry.hpp"

#include <cstring>

namespace custash::sim {
namespace {

// CUcoredumpSettings, which CUDA 11.8 lacks.
enum class Setting : int { Enable = 1, File = 5, Flags = 7 };

template <typename T>
CUresult tell(const T& from, void* value, std::size_t* size) {
  *size = sizeof from;
  if (value != nullptr) std::memcpy(value, &from, sizeof from);
  return CUDA_SUCCESS;
}

template <typename T>
CUresult take(T* to, const void* value, std::size_t size) {
  if (size != sizeof *to) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(to, value, size);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY(cuCoredumpGetAttributeGlobal, (int setting, void* value, std::size_t* size)) {
  return SIM_CALL(cuCoredumpGetAttributeGlobal, Init) {
    if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CoreDumps& dumps = f.world.core_dumps;
    switch (static_cast<Setting>(setting)) {
      case Setting::Enable:
        return tell(dumps.enabled, value, size);
      case Setting::Flags:
        return tell(dumps.flags, value, size);
      case Setting::File:
        *size = dumps.file.size() + 1;
        if (value != nullptr) std::memcpy(value, dumps.file.c_str(), *size);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

SIM_ENTRY(cuCoredumpSetAttributeGlobal, (int setting, void* value, std::size_t* size)) {
  return SIM_CALL(cuCoredumpSetAttributeGlobal, Init) {
    if (value == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CoreDumps& dumps = f.world.core_dumps;
    switch (static_cast<Setting>(setting)) {
      case Setting::Enable:
        return take(&dumps.enabled, value, *size);
      case Setting::Flags:
        return take(&dumps.flags, value, *size);
      case Setting::File:
        dumps.file = static_cast<const char*>(value);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

}  // namespace custash::sim
