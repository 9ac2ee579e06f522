// SPDX-License-Identifier: MIT
#include "interpose/real/device_pools.hpp"

#include "interpose/real/real_driver.hpp"

namespace custash::real {
namespace {

using Ask = CUresult(CUmemoryPool*, CUdevice);

CUresult ask(Ask* get, CUdevice device, CUmemoryPool* out) noexcept {
  return get == nullptr ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : get(out, device);
}

}  // namespace

CUresult default_pool(CUdevice device, CUmemoryPool* out) noexcept {
  static auto* const get = reinterpret_cast<Ask*>(symbol("cuDeviceGetDefaultMemPool"));
  return ask(get, device, out);
}

CUresult current_pool(CUdevice device, CUmemoryPool* out) noexcept {
  static auto* const get = reinterpret_cast<Ask*>(symbol("cuDeviceGetMemPool"));
  return ask(get, device, out);
}

}  // namespace custash::real
