// SPDX-License-Identifier: MIT
// The statistics of a device as JSON (docs/statistics.md). `custash stat` makes the other forms
// of it. No state.
#pragma once

#include "allocator/allocator.hpp"

#include <string>

namespace custash::stats_text {

std::string json(Allocator& core, int device);

}  // namespace custash::stats_text
