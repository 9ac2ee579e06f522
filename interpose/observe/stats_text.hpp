// SPDX-License-Identifier: MIT
// The statistics of a device as text (docs/statistics.md): all of them as JSON or for
// Prometheus, and PyTorch's table. No state.
#pragma once

#include "allocator/allocator.hpp"

#include <string>
#include <vector>

namespace custash::stats_text {

std::string json(Allocator& core, int device);
// Of several devices: each metric has its type once.
std::string prometheus(Allocator& core, const std::vector<int>& devices);
std::string table(Allocator& core, int device);

}  // namespace custash::stats_text
