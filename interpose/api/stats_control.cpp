// SPDX-License-Identifier: MIT
// The C API over statistics as a structure and as text: what custash.h promises, and nothing
// else.
#include "allocator/base/last_error.hpp"
#include "interpose/api/control.hpp"
#include "interpose/counters/device_stats.hpp"

#include <algorithm>
#include <cstring>
#include <string>

using namespace custash;  // NOLINT: the definitions below are C's
using control::with_device;

custash_status_t custash_memory_stats(int device, custash_stat_t* stats, size_t* count) {
  if (count == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  custash_status_t told = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int number) {
    static const auto* const names = new auto(control::names_of(device_stats::flatten({})));
    told = control::tell(
        device_stats::flatten(device_stats::read(core, number)), *names, stats, count);
  });
  return found != CUSTASH_SUCCESS ? found : told;
}

custash_status_t custash_get_device_stats(int device, custash_device_stats_t* stats) {
  constexpr std::size_t kLeast = sizeof(std::size_t) + sizeof(std::int64_t);
  if (stats == nullptr || stats->size < kLeast) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    custash_device_stats_t all = device_stats::read(core, number);
    all.size = std::min(stats->size, sizeof all);
    std::memcpy(stats, &all, all.size);
  });
}

custash_status_t custash_stats_text(int device, int form, char* text, size_t* size) {
  if (size == nullptr || form < CUSTASH_TEXT_JSON || form > CUSTASH_TEXT_TABLE)
    return CUSTASH_ERROR_INVALID_VALUE;
  if (form != CUSTASH_TEXT_JSON) {
    set_last_error(
        "the library writes JSON only: custash stat PID prints the table, and with "
        "--prometheus that form");
    return CUSTASH_ERROR_INVALID_VALUE;
  }
  custash_status_t told = CUSTASH_SUCCESS;
  const custash_status_t found = with_device(device, [&](Allocator& core, int number) {
    told = control::tell_text(device_stats::as_json(core, number), text, size);
  });
  return found != CUSTASH_SUCCESS ? found : told;
}
