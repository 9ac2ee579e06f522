// SPDX-License-Identifier: MIT
#include "interpose/doors.hpp"

namespace custash::doors {

bool relieve(Allocator& core) noexcept {
  if (captures::under_way()) return false;
  CUcontext context = nullptr;
  if (core.driver().ctx_get_current(&context) != CUDA_SUCCESS) return false;
  try {
    const bool pinned = process::pinned().relieve();
    if (context != nullptr) return core.relieve(context) || pinned;
    core.empty_all_caches();  // a context is being made: nothing says for which device
    return true;
  } catch (...) {
    return false;
  }
}

CUresult unless_broken(Allocator& core, CUresult code) {
  CUcontext context = nullptr;
  if (core.driver().ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr ||
      !core.context_broken(context)) {
    return code;
  }
  const CUresult fault = core.driver().ctx_synchronize();
  return fault == CUDA_SUCCESS ? code : fault;
}

}  // namespace custash::doors
