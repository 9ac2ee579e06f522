// SPDX-License-Identifier: MIT
// The summary that summary:true asks for: one line a device on standard error. No state.
#pragma once

#include "interpose/api/custash.h"
#include "interpose/counters/passed_counts.hpp"

#include <string>
#include <vector>

namespace custash {

// One line for each device that was used; for the first device where none was. One more where
// the driver served calls of the program itself.
std::string summary_text(const std::vector<custash_device_stats_t>& devices,
                         const passed::PassedCounts& passed);

}  // namespace custash
