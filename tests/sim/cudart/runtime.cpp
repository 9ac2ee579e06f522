// SPDX-License-Identifier: MIT
// Initialisation, contexts and the last error.
#include "tests/sim/cudart/runtime.hpp"

#include "tests/sim/cudart/modules.hpp"

#include <atomic>
#include <mutex>

namespace custash::cudart {
namespace {

constexpr int kMaxDevices = 64;

struct Primary {
  std::atomic<CUcontext> context{
      nullptr};  // stays after a reset: the driver hands out the same handle
  std::atomic<bool> active{false};
};

struct State {
  DriverTable driver;
  std::once_flag once;
  cudaError_t init_error = cudaErrorInitializationError;
  int device_count = 0;
  Primary primaries[kMaxDevices];
  std::mutex contexts;  // retain and reset
};

State& state() {
  static State* const the = new State;
  return *the;
}

thread_local int thread_device = 0;
thread_local cudaError_t thread_last_error = cudaSuccess;

cudaError_t start(State& at) {
  if (!load_driver(at.driver)) return cudaErrorInsufficientDriver;
  int version = 0;
  (void)at.driver.legacy.driver_get_version(&version);
  Error error = at.driver.legacy.init(0);
  if (error.ok()) error = at.driver.legacy.device_get_count(&at.device_count);
  if (error.ok() && at.device_count == 0) error = cudaErrorNoDevice;
  if (at.device_count > kMaxDevices) at.device_count = kMaxDevices;
  return error.code;
}

// After a reset the old handle may still be current to this or another thread.
bool usable(State& at, CUcontext context) {
  for (int device = 0; device < at.device_count; ++device) {
    const Primary& primary = at.primaries[device];
    if (primary.context.load() == context) return primary.active.load();
  }
  return true;
}

}  // namespace

Error initialise() {
  State& at = state();
  std::call_once(at.once, [&at] { at.init_error = start(at); });
  return at.init_error;
}

const DriverTable& driver() {
  return state().driver;
}

int device_count() {
  return state().device_count;
}

Error primary_context(int device, CUcontext* context) {
  State& at = state();
  if (device < 0 || device >= at.device_count) return cudaErrorInvalidDevice;
  Primary& primary = at.primaries[device];
  if (!primary.active.load()) {
    const std::lock_guard lock(at.contexts);
    if (!primary.active.load()) {
      CUcontext made = nullptr;
      const Error error = at.driver.legacy.primary_ctx_retain(&made, device);
      if (!error.ok()) return error;
      primary.context.store(made);
      primary.active.store(true);
    }
  }
  *context = primary.context.load();
  return cudaSuccess;
}

int current_device() {
  const Calls& cu = legacy();
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (cu.ctx_get_current(&current) == CUDA_SUCCESS && current != nullptr &&
      usable(state(), current) && cu.ctx_get_device(&device) == CUDA_SUCCESS) {
    return device;
  }
  return thread_device;
}

Error set_device(int device) {
  CUcontext context = nullptr;
  Error error = primary_context(device, &context);
  if (error.ok()) error = legacy().ctx_set_current(context);
  if (error.ok()) thread_device = device;
  return error;
}

Error ensure_context() {
  CUcontext current = nullptr;
  const Error error = legacy().ctx_get_current(&current);
  if (error.ok() && current != nullptr && usable(state(), current)) return cudaSuccess;
  return set_device(thread_device);
}

Error reset_device() {
  State& at = state();
  const int device = current_device();
  Primary& primary = at.primaries[device];
  const std::lock_guard lock(at.contexts);
  if (!primary.active.load()) return cudaSuccess;
  forget_modules(primary.context.load());
  // Inactive before the reset: another thread's next call then retains anew.
  primary.active.store(false);
  const Error error = legacy().primary_ctx_reset(device);
  if (error.ok()) (void)legacy().ctx_set_current(nullptr);
  return error;
}

Error set_device_flags(unsigned flags) {
  return legacy().primary_ctx_set_flags(current_device(), flags & ~unsigned{cudaDeviceMapHost});
}

// "Not ready" is an answer, not an error (the real runtime does not keep it either).
cudaError_t record(Error error) {
  if (!error.ok() && error.code != cudaErrorNotReady) thread_last_error = error.code;
  return error.code;
}

cudaError_t peek_last_error() {
  return thread_last_error;
}

cudaError_t take_last_error() {
  const cudaError_t error = thread_last_error;
  thread_last_error = cudaSuccess;
  return error;
}

}  // namespace custash::cudart
