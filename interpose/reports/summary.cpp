// SPDX-License-Identifier: MIT
#include "interpose/reports/summary.hpp"

#include <cinttypes>
#include <cstdio>

namespace custash {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string line_of(const custash_device_stats_t& stats) {
  constexpr int kAll = CUSTASH_ALL;
  char line[512];
  const int length =
      std::snprintf(line,
                    sizeof line,
                    "custash: device %" PRId64 ": %" PRId64 " allocations, %" PRId64
                    " frees; peak in use %.1f MiB, "
                    "peak reserved %.1f MiB; driver calls for memory %" PRId64 " + %" PRId64
                    "; fences %" PRId64 ", waits on the GPU %" PRId64
                    ", frees that waited %" PRId64 ", out of memory %" PRId64 "\n",
                    stats.device,
                    stats.allocation[kAll].allocated,
                    stats.allocation[kAll].freed,
                    static_cast<double>(stats.allocated_bytes[kAll].peak) / kMiB,
                    static_cast<double>(stats.reserved_bytes[kAll].peak) / kMiB,
                    stats.num_device_alloc,
                    stats.num_device_free,
                    stats.num_fences,
                    stats.num_debt_waits,
                    stats.num_free_waits,
                    stats.num_ooms);
  return length > 0 ? line : "";
}

}  // namespace

std::string summary_text(const std::vector<custash_device_stats_t>& devices,
                         const passed::PassedCounts& passed) {
  constexpr int kAll = CUSTASH_ALL;
  std::string out;
  std::uint64_t calls = 0;
  Bytes bytes = 0;
  for (const custash_device_stats_t& stats : devices) {
    if (stats.allocation[kAll].allocated != 0) out += line_of(stats);
    calls += static_cast<std::uint64_t>(stats.allocation[kAll].allocated);
    bytes += static_cast<Bytes>(stats.requested_bytes[kAll].allocated);
  }
  if (out.empty() && !devices.empty()) out = line_of(devices.front());
  const std::string share = passed::share_text(passed, calls, bytes);
  return out + (share.empty() ? "" : "custash: " + share + "\n");
}

}  // namespace custash
