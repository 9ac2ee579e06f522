// SPDX-License-Identifier: MIT
#include "interpose/process/device_scope.hpp"

#include "allocator/base/driver.hpp"
#include "interpose/real/real_driver.hpp"

namespace custash {

bool is_primary_active(Allocator& core, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return core.driver().primary_ctx_get_state(device, &flags, &active) == CUDA_SUCCESS &&
         active != 0;
}

CUcontext primary_context(Allocator& core, CUdevice device) {
  CUcontext context = nullptr;
  auto* const release =
      real::function<CUresult(CUdevice)>(Entry::hook_cuDevicePrimaryCtxRelease_v2);
  if (release == nullptr || !is_primary_active(core, device)) return nullptr;
  if (core.driver().primary_ctx_retain(&context, device) != CUDA_SUCCESS) return nullptr;
  return release(device) == CUDA_SUCCESS ? context : nullptr;
}

int DeviceScope::resolve(const Driver& driver, int device) {
  if (device >= 0) return device;
  CUcontext context = nullptr;
  CUdevice current = 0;
  if (driver.ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) return 0;
  return driver.ctx_get_device(&current) == CUDA_SUCCESS ? current : 0;
}

DeviceScope::DeviceScope(Allocator& core, int device) : driver_(core.driver()) {
  CUdevice current = -1;
  status_ = driver_.ctx_get_current(&context_);
  if (!status_.ok()) return;
  const int wanted = resolve(driver_, device);
  if (context_ != nullptr && driver_.ctx_get_device(&current) == CUDA_SUCCESS &&
      current == wanted) {
    return;
  }
  enter_primary(wanted);
}

DeviceScope::DeviceScope(Allocator& core, Address block) : driver_(core.driver()) {
  BlockInfo info;
  status_ = driver_.ctx_get_current(&context_);
  if (!status_.ok() || context_ != nullptr) return;
  if (core.find(block, &info) == Ownership::Live) enter(info.context);
}

DeviceScope::DeviceScope(Allocator& core, CUstream stream) : driver_(core.driver()) {
  status_ = driver_.ctx_get_current(&context_);
  if (!status_.ok() || context_ != nullptr || is_default_stream(stream)) return;
  CUcontext its = nullptr;
  status_ = driver_.stream_get_ctx(stream, &its);
  if (status_.ok()) enter(its);
}

void DeviceScope::enter(CUcontext context) {
  context_ = context;
  status_ = driver_.ctx_push(context);
  pushed_ = status_.ok();
}

// An active primary context has another user. Our reference is released, so that the count
// stays the program's. We keep the reference to an inactive one: releasing it would destroy the
// memory.
void DeviceScope::enter_primary(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  status_ = driver_.primary_ctx_get_state(device, &flags, &active);
  if (status_.ok()) status_ = driver_.primary_ctx_retain(&context, device);
  if (!status_.ok()) return;
  if (active != 0) to_release_ = device;
  enter(context);
}

DeviceScope::~DeviceScope() {
  // Neither can fail where the constructor succeeded, and nothing could be done about it.
  CUcontext popped = nullptr;
  if (pushed_) driver_.ctx_pop(&popped);
  auto* const release =
      real::function<CUresult(CUdevice)>(Entry::hook_cuDevicePrimaryCtxRelease_v2);
  if (to_release_ >= 0 && release != nullptr) release(to_release_);
}

}  // namespace custash
