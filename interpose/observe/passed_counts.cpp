// SPDX-License-Identifier: MIT
#include "interpose/observe/passed_counts.hpp"

#include <cinttypes>
#include <cstdio>

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

std::string share_text(const PassedCounts& counts, std::uint64_t calls, Bytes bytes) {
  std::uint64_t all = calls;
  Bytes all_bytes = bytes;
  std::string kinds;
  for (std::size_t i = 0; i < kKinds; ++i) {
    const PassedCount& count = counts[i];
    if (count.calls == 0) continue;
    if (i < kServable) {
      all += count.calls;
      all_bytes += count.bytes;
    }
    kinds += (kinds.empty() ? "" : ", ") + std::string(name_of(static_cast<Kind>(i))) + " " +
             std::to_string(count.calls) + " (" + sized(count.bytes);
    if (count.live != 0)
      kinds += ", " + std::to_string(count.live) + " live: " + sized(count.live_bytes);
    kinds += ")";
  }
  if (kinds.empty()) return "";
  char line[160];
  (void)std::snprintf(line,
                      sizeof line,
                      "custash: served %" PRIu64 " of %" PRIu64
                      " allocations (%.1f %%) and %.1f %% of their bytes; by the driver: ",
                      calls,
                      all,
                      percent(calls, all),
                      percent(bytes, all_bytes));
  return line + kinds + "\n";
}

}  // namespace custash::passed
