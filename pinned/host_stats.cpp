// SPDX-License-Identifier: MIT
#include "pinned/host_stats.hpp"

#include <algorithm>

namespace custash {
namespace {

using Flat = std::vector<std::pair<std::string, std::int64_t>>;

void append(Flat* out, const std::string& name, const Stat& stat) {
  out->emplace_back(name + ".current", stat.current);
  out->emplace_back(name + ".peak", stat.peak);
  out->emplace_back(name + ".allocated", stat.allocated);
  out->emplace_back(name + ".freed", stat.freed);
}

void append(Flat* out, const std::string& name, const DurationStat& stat) {
  out->emplace_back(name + ".total", stat.total);
  out->emplace_back(name + ".max", stat.max);
  out->emplace_back(name + ".min", stat.min);
  out->emplace_back(name + ".count", stat.count);
  out->emplace_back(name + ".avg", stat.count == 0 ? 0 : stat.total / stat.count);
}

}  // namespace

void DurationStat::add(Nanoseconds elapsed) {
  const auto micros = static_cast<std::int64_t>(elapsed / 1000);
  total += micros;
  max = std::max(max, micros);
  min = count == 0 ? micros : std::min(min, micros);
  ++count;
}

void HostStats::reset_peaks() {
  for (Stat* stat : {&allocations,
                     &allocated_bytes,
                     &active_requests,
                     &active_bytes,
                     &in_use,
                     &in_use_bytes,
                     &requested_bytes}) {
    stat->reset_peak();
  }
}

Flat HostStats::flatten() const {
  Flat out;
  append(&out, "allocations", allocations);
  append(&out, "allocated_bytes", allocated_bytes);
  append(&out, "active_requests", active_requests);
  append(&out, "active_bytes", active_bytes);
  out.emplace_back("num_host_alloc", num_host_alloc);
  out.emplace_back("num_host_free", num_host_free);
  append(&out, "host_alloc_time", host_alloc_time);
  append(&out, "host_free_time", host_free_time);
  append(&out, "in_use", in_use);
  append(&out, "in_use_bytes", in_use_bytes);
  append(&out, "requested_bytes", requested_bytes);
  out.emplace_back("num_waits", num_waits);
  out.emplace_back("num_retries", num_retries);
  out.emplace_back("num_ooms", num_ooms);
  out.emplace_back("num_guarded", num_guarded);
  out.emplace_back("num_unguarded", num_unguarded);
  out.emplace_back("num_overwritten", num_overwritten);
  out.emplace_back("guard_bytes", guard_bytes);
  out.emplace_back("guard_resting_bytes", guard_resting_bytes);
  out.emplace_back("guard_time_ns", guard_time_ns);
  return out;
}

}  // namespace custash
