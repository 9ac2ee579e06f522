// SPDX-License-Identifier: MIT
#include "interpose/counters/passed_counts.hpp"

#include "interpose/process/json.hpp"

#include <cinttypes>
#include <cstdio>
#include <utility>
#include <vector>

namespace custash::passed {
namespace {

std::string sized(Bytes bytes) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 100 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Share share_of(const PassedCounts& counts, std::uint64_t calls, Bytes bytes) {
  Share share{calls, calls, bytes, bytes};
  for (std::size_t i = 0; i < kServable; ++i) {
    share.all_calls += counts[i].calls;
    share.all_bytes += counts[i].bytes;
  }
  return share;
}

std::string share_text(const PassedCounts& counts, std::uint64_t calls, Bytes bytes) {
  std::string kinds;
  for (std::size_t i = 0; i < kKinds; ++i) {
    const PassedCount& count = counts[i];
    if (count.calls == 0) continue;
    kinds += (kinds.empty() ? "" : ", ") + std::string(name_of(static_cast<Kind>(i))) + " " +
             std::to_string(count.calls) + " (" + sized(count.bytes);
    if (count.live != 0)
      kinds += ", " + std::to_string(count.live) + " live: " + sized(count.live_bytes);
    kinds += ")";
  }
  if (kinds.empty()) return "";
  const Share share = share_of(counts, calls, bytes);
  char text[160];
  (void)std::snprintf(text,
                      sizeof text,
                      "served %" PRIu64 " of %" PRIu64
                      " allocations (%.1f %%) and %.1f %% of their bytes; by the driver: ",
                      calls,
                      share.all_calls,
                      percent(calls, share.all_calls),
                      percent(bytes, share.all_bytes));
  return text + kinds;
}

void write_passed(JsonWriter& json, const PassedCounts& counts) {
  std::vector<std::pair<Kind, PassedCount>> rows;
  for (std::size_t i = 0; i < kKinds; ++i)
    if (counts[i].calls != 0 || counts[i].live != 0)
      rows.emplace_back(static_cast<Kind>(i), counts[i]);
  json.objects("passed", rows, [&](const auto& row) {
    json.text_member("kind", name_of(row.first));
    json.member("allocations", row.second.calls);
    json.member("allocated_bytes", row.second.bytes);
    json.member("live", row.second.live);
    json.member("live_bytes", row.second.live_bytes);
  });
}

}  // namespace custash::passed
