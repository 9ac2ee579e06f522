// SPDX-License-Identifier: MIT
// Shared by the functions of the C API: they get the core as custash.h promises, translate
// statuses and fill lists of counters. No state.
#pragma once

#include "allocator/base/thread.hpp"
#include "interpose/api/custash.h"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace custash::control {

custash_status_t translate(Status status);

inline custash_status_t translate(const std::optional<Status>& status) {
  return status ? translate(*status) : CUSTASH_ERROR_NOT_OURS;
}

// As the runtime does, this initialises CUDA where the program has not. Null: custash does not
// serve the process.
Allocator* core_or_start();

// Calls `body(core)` as custash.h promises. Running out of host memory becomes a status. For
// calls with a fast path: the waits beyond that disable cancellation for themselves.
template <typename Body>
custash_status_t quickly_with_core(Body body) noexcept {
  try {
    Allocator* const core = core_or_start();
    return core == nullptr ? CUSTASH_ERROR_NOT_RUNNING : body(*core);
  } catch (...) {
    return CUSTASH_ERROR_OUT_OF_MEMORY;
  }
}

template <typename Body>
custash_status_t with_core(Body body) noexcept {
  const CancellationOff off;
  return quickly_with_core(body);
}

// Resolves CUSTASH_CURRENT_DEVICE; INVALID_VALUE where there is no such device.
custash_status_t find_device(Allocator& core, int* device);

// Calls `body(core, device)`, which returns a status, if the device exists.
template <typename Body>
custash_status_t with_device(int device, Body body) noexcept {
  return with_core([&](Allocator& core) {
    const custash_status_t found = find_device(core, &device);
    return found == CUSTASH_SUCCESS ? body(core, device) : found;
  });
}

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

// The caller never frees them, because custash_stat_t points at them.
std::vector<std::string> names_of(const Counters& counters);

// `names` has the order of `counters`, which is the same at every call.
custash_status_t write_stats(const Counters& counters,
                             const std::vector<std::string>& names,
                             custash_stat_t* stats,
                             std::size_t* count);

// Writes the text and a zero, or answers how much room they need.
custash_status_t write_text(const std::string& all, char* text, std::size_t* size);

}  // namespace custash::control
