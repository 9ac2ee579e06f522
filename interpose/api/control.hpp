// SPDX-License-Identifier: MIT
// What the functions of the C API share: the core in the state that custash.h promises,
// statuses, and lists of counters. No state.
#pragma once

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

// Like the runtime's calls, ours initialise CUDA where nobody has. Null: not served.
Allocator* core_or_start();

// `body(core)` in the state that the header promises, with host memory's end as a status.
template <typename Body>
custash_status_t with_core(Body body) noexcept {
  try {
    Allocator* const core = core_or_start();
    return core == nullptr ? CUSTASH_ERROR_NOT_RUNNING : body(*core);
  } catch (...) {
    return CUSTASH_ERROR_OUT_OF_MEMORY;
  }
}

// Resolves CUSTASH_CURRENT_DEVICE; INVALID_VALUE where there is no such device.
custash_status_t find_device(Allocator& core, int* device);

// `body(core, device)` for a device that is there.
template <typename Body>
custash_status_t with_device(int device, Body body) noexcept {
  return with_core([&](Allocator& core) {
    const custash_status_t found = find_device(core, &device);
    if (found == CUSTASH_SUCCESS) body(core, device);
    return found;
  });
}

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

// The caller keeps them for ever: custash_stat_t points at them.
std::vector<std::string> names_of(const Counters& counters);

// `names` in the order of `counters`, the same at every call.
custash_status_t tell(const Counters& counters,
                      const std::vector<std::string>& names,
                      custash_stat_t* stats,
                      std::size_t* count);

// The text and a zero, or how much room they need.
custash_status_t tell_text(const std::string& all, char* text, std::size_t* size);

}  // namespace custash::control
