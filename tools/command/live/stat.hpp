// SPDX-License-Identifier: MIT
// The statistics of a process in the forms of `custash stat`, from the JSON lines that its
// service answers (docs/observing.md). Pure.
#pragma once

#include "interpose/api/custash.h"

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace custash::statistics {

struct Statistics {
  custash_device_stats_t device{};
  nlohmann::ordered_json all;
};

// One for each line, of a device each. Throws std::runtime_error if it is no such JSON.
std::vector<Statistics> read(std::string_view lines);

// torch.cuda.memory_summary's table.
std::string table_of(const custash_device_stats_t& stats);

// Prometheus' text format. Of several devices: each metric has its type once.
std::string prometheus_of(const std::vector<Statistics>& devices);

}  // namespace custash::statistics
