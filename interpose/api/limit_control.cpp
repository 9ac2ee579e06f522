// SPDX-License-Identifier: MIT
// The C API over limits, trimming, sleep and running out: what custash.h promises, and nothing
// else.
#include "allocator/base/last_error.hpp"
#include "allocator/memory_limits.hpp"
#include "interpose/api/control.hpp"
#include "interpose/process/sleep_library.hpp"

#include <string>

using namespace custash;  // NOLINT: the definitions below are C's
using control::translate;
using control::with_core;
using control::with_device;

namespace {

// BUSY if `ask(library, core, device)` answers with a reason.
template <typename Ask>
custash_status_t busy_if(int device, Ask ask) {
  return with_device(device, [&](Allocator& core, int number) {
    std::string why;
    const SleepLibrary* const library = open_sleep_library(core, &why);
    if (library != nullptr) why = ask(*library, core, number);
    if (why.empty()) return CUSTASH_SUCCESS;
    set_last_error(why);
    return library == nullptr ? CUSTASH_ERROR_FILE : CUSTASH_ERROR_BUSY;
  });
}

}  // namespace

custash_status_t custash_trim(int device, size_t bytes) {
  return with_device(device, [&](Allocator& core, int number) {
    return bytes == 0 ? CUSTASH_SUCCESS : translate(core.trim(number, bytes));
  });
}

custash_status_t custash_trim_stream(custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    return translate(core.trim_stream(static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_trim_idle(int device) {
  return with_device(
      device, [](Allocator& core, int number) { return translate(core.trim_idle(number)); });
}

custash_status_t custash_trim_deep(int device) {
  return busy_if(device, [](const SleepLibrary& library, Allocator& core, int number) {
    const DeepTrimAnswer answer = library.deep_trim(core, {.device = number});
    return answer.done ? std::string() : answer.text;
  });
}

custash_status_t custash_sleep(int device) {
  return busy_if(device, [](const SleepLibrary& library, Allocator& core, int number) {
    const SleepAnswer answer = library.sleep(core, {.device = number});
    return answer.asleep ? std::string() : answer.text;
  });
}

custash_status_t custash_wake(int device) {
  return with_device(device, [](Allocator& core, int) {
    Sleep(core).wake();
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_set_memory_limit(int device, size_t bytes) {
  return with_device(device, [&](Allocator& core, int number) {
    core.limits().budget(number).set_limit(bytes);
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_set_memory_fraction(int device, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    std::size_t total = 0;
    const Status status = core.driver().device_total_mem(&total, number);
    if (status.ok())
      core.limits().budget(number).set_limit(
          static_cast<Bytes>(static_cast<double>(total) * fraction));
    return translate(status);
  });
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
