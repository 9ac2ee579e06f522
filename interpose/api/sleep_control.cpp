// SPDX-License-Identifier: MIT
// Sleep, of the C API.
#include "allocator/base/last_error.hpp"
#include "allocator/sleep.hpp"
#include "interpose/api/control.hpp"

using namespace custash;  // NOLINT: the definitions below are C's
using control::with_device;

custash_status_t custash_sleep(int device) {
  custash_status_t result = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int number) {
    const SleepAnswer answer = Sleep(core).go({.device = number});
    if (answer.asleep) return;
    set_last_error(answer.text);
    result = CUSTASH_ERROR_BUSY;
  });
  return found != CUSTASH_SUCCESS ? found : result;
}

custash_status_t custash_wake(int device) {
  custash_status_t result = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int) {
    const Bytes changed = Sleep(core).wake();
    if (changed == 0) return;
    set_last_error(changed_text(changed));
    result = CUSTASH_ERROR_CONTENTS;
  });
  return found != CUSTASH_SUCCESS ? found : result;
}
