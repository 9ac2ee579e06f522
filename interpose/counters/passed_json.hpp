// SPDX-License-Identifier: MIT
// The calls that the driver served, as a list in statistics and snapshots. No state.
#pragma once

#include "interpose/counters/passed_counts.hpp"
#include "interpose/process/json.hpp"

#include <utility>
#include <vector>

namespace custash::passed {

// Of the process: the driver's answers name no device.
inline void write_passed(JsonWriter& json, const PassedCounts& counts) {
  std::vector<std::pair<Kind, PassedCount>> rows;
  for (std::size_t i = 0; i < kKinds; ++i)
    if (counts[i].calls != 0) rows.emplace_back(static_cast<Kind>(i), counts[i]);
  json.objects("passed", rows, [&](const auto& row) {
    json.text_member("kind", name_of(row.first));
    json.member("allocations", row.second.calls);
    json.member("allocated_bytes", row.second.bytes);
    json.member("live", row.second.live);
    json.member("live_bytes", row.second.live_bytes);
  });
}

}  // namespace custash::passed
