// SPDX-License-Identifier: MIT
// Sleep and deep trims, of the C API.
#include "allocator/base/last_error.hpp"
#include "allocator/sleep/deep_trim.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/api/control.hpp"

#include <string>

using namespace custash;  // NOLINT: the definitions below are C's
using control::with_device;

namespace {

// BUSY if `ask(core, device)` answers with a reason.
template <typename Ask>
custash_status_t busy_if(int device, Ask ask) {
  std::string why;
  const custash_status_t found =
      with_device(device, [&](Allocator& core, int number) { why = ask(core, number); });
  if (found != CUSTASH_SUCCESS || why.empty()) return found;
  set_last_error(why);
  return CUSTASH_ERROR_BUSY;
}

}  // namespace

custash_status_t custash_sleep(int device) {
  return busy_if(device, [](Allocator& core, int number) {
    const SleepAnswer answer = Sleep(core).go({.device = number});
    return answer.asleep ? std::string() : answer.text;
  });
}

custash_status_t custash_wake(int device) {
  return with_device(device, [](Allocator& core, int) { Sleep(core).wake(); });
}

custash_status_t custash_trim_deep(int device) {
  return busy_if(device, [](Allocator& core, int number) {
    const DeepTrimAnswer answer = DeepTrim(core).go({.device = number});
    return answer.done ? std::string() : answer.text;
  });
}
