// SPDX-License-Identifier: MIT
// The C API over limits, trimming and running out: what custash.h promises, and nothing else.
#include "allocator/base/last_error.hpp"
#include "allocator/memory_limits.hpp"
#include "interpose/api/control.hpp"

using namespace custash;  // NOLINT: the definitions below are C's
using control::translate;
using control::with_core;
using control::with_device;

custash_status_t custash_trim(int device, size_t bytes) {
  custash_status_t result = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int number) {
    if (bytes != 0) result = translate(core.trim(number, bytes));
  });
  return found != CUSTASH_SUCCESS ? found : result;
}

custash_status_t custash_trim_stream(custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    return translate(core.trim_stream(static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_trim_idle(int device) {
  custash_status_t result = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(
      device, [&](Allocator& core, int number) { result = translate(core.trim_idle(number)); });
  return found != CUSTASH_SUCCESS ? found : result;
}

custash_status_t custash_set_memory_limit(int device, size_t bytes) {
  return with_device(device, [&](Allocator& core, int number) {
    core.limits().budget(number).set_limit(bytes);
  });
}

custash_status_t custash_set_memory_fraction(int device, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) return CUSTASH_ERROR_INVALID_VALUE;
  custash_status_t result = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int number) {
    std::size_t total = 0;
    result = translate(Status(core.driver().device_total_mem(&total, number)));
    if (result == CUSTASH_SUCCESS)
      core.limits().budget(number).set_limit(
          static_cast<Bytes>(static_cast<double>(total) * fraction));
  });
  return found != CUSTASH_SUCCESS ? found : result;
}

custash_status_t custash_add_oom_callback(custash_oom_callback_t callback, void* data) {
  if (callback == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_core([&](Allocator& core) {
    core.limits().add_oom_hook(callback, data);
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_remove_oom_callback(custash_oom_callback_t callback, void* data) {
  return with_core([&](Allocator& core) {
    return core.limits().remove_oom_hook(callback, data) ? CUSTASH_SUCCESS
                                                         : CUSTASH_ERROR_INVALID_VALUE;
  });
}

const char* custash_last_error_message(void) {
  return last_error();
}
