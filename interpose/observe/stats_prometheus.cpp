// SPDX-License-Identifier: MIT
// The statistics in Prometheus' text format.
#include "interpose/observe/check_time.hpp"
#include "interpose/observe/device_stats.hpp"
#include "interpose/observe/driver_calls.hpp"
#include "interpose/observe/passed.hpp"
#include "interpose/observe/stats_text.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace custash::stats_text {
namespace {

struct Help {
  std::string_view name;
  const char* text;
};

// docs/statistics.md says more. A number that is not here has its name for help.
constexpr std::array kHelp = {
    Help{"allocation", "Blocks that the program owns"},
    Help{"segment", "Pieces of memory obtained from the driver"},
    Help{"active", "Blocks that the program owns or that work in flight may use"},
    Help{"inactive_split", "Free blocks that share their segment with others"},
    Help{"allocated_bytes", "Bytes that the program owns, as handed out"},
    Help{"reserved_bytes", "Bytes obtained from the driver"},
    Help{"active_bytes", "Bytes that the program owns or that work in flight may use"},
    Help{"inactive_split_bytes", "Bytes of free blocks that share their segment"},
    Help{"requested_bytes", "Bytes that the program owns, as it asked for them"},
    Help{"oversize_allocations", "Always 0: blocks of any size are split"},
    Help{"oversize_segments", "Always 0: blocks of any size are split"},
    Help{"max_split_size", "Always -1: no limit"},
    Help{"num_alloc_retries", "Times that the driver refused memory and was asked again"},
    Help{"num_ooms", "Allocations that failed for memory"},
    Help{"num_sync_all_streams", "Times that the host waited for a whole context"},
    Help{"num_device_alloc", "Driver calls that made memory"},
    Help{"num_device_free", "Driver calls that gave memory back"},
    Help{"num_fences", "Events recorded at frees"},
    Help{"num_fence_queries", "Times that such an event was asked whether it has passed"},
    Help{"num_debt_waits", "Waits inserted on the GPU before a submission"},
    Help{"num_free_waits", "Frees that waited"},
    Help{"num_stalls_avoided", "Frees that did not wait as the driver's would have"},
    Help{"num_pages_moved", "Pages mapped at another address instead of made"},
    Help{"num_guarded", "Allocations with pages of their own (option guard)"},
    Help{"num_unguarded", "Allocations for which a guard had no room"},
    Help{"num_overwritten", "Guarded blocks with bytes written around them"},
    Help{"guard_bytes", "Bytes of the pages of guarded blocks"},
    Help{"guard_resting_bytes", "Bytes of addresses of freed guarded blocks"},
    Help{"guard_time_ns", "Nanoseconds that calls spent for guards"},
    Help{"limbo_bytes", "Bytes freed while the work that used them is in flight"},
    Help{"asleep_bytes", "Bytes held of which the contents are in host memory"},
    Help{"free_bytes", "Bytes held, neither owned nor in limbo"},
    Help{"largest_free_block", "Bytes of the largest free range"},
    Help{"fragmentation", "Thousandths of free_bytes outside the largest free range"},
    Help{"total_bytes", "Bytes of the device"},
};

std::string_view without_prefix(std::string_view name) {
  constexpr std::string_view kOwn = "custash.";
  return name.substr(name.substr(0, kOwn.size()) == kOwn ? kOwn.size() : 0);
}

std::string help_of(std::string_view name) {
  const auto found = std::find_if(
      kHelp.begin(), kHelp.end(), [&](const Help& each) { return each.name == name; });
  return found == kHelp.end() ? std::string(name) : found->text;
}

// Whether it only ever rises. All others of a device are levels.
bool counts(std::string_view name) {
  return name.substr(0, 4) == "num_" || name == "guard_time_ns";
}

void add_header(std::string& out,
                const std::string& name,
                const char* type,
                const std::string& help) {
  out += "# HELP " + name + " " + help + ".\n# TYPE " + name + " " + type + "\n";
}

void add_sample(std::string& out,
                const std::string& name,
                const std::string& labels,
                std::int64_t value) {
  out += name + "{" + labels + "} " + std::to_string(value) + "\n";
}

using Devices = std::vector<custash_device_stats_t>;

std::string label_of(const custash_device_stats_t& stats) {
  return "device=\"" + std::to_string(stats.device) + "\"";
}

// A metric's samples of all devices stand together.
void add_counters(std::string& out, const Devices& devices) {
  using Part = std::int64_t custash_counter_t::*;

  struct Row {
    const char* ending;
    Part part;
    const char* type;
    const char* help;
  };

  constexpr Row kRows[] = {
      {"", &custash_counter_t::current, "gauge", ""},
      {"_peak", &custash_counter_t::peak, "gauge", " (the most)"},
      {"_allocated_total", &custash_counter_t::allocated, "counter", " (sum of all rises)"},
      {"_freed_total", &custash_counter_t::freed, "counter", " (sum of all falls)"}};
  for (const auto& member : device_stats::kCounterMembers) {
    for (const Row& row : kRows) {
      const std::string name = std::string("custash_") + member.name + row.ending;
      add_header(out, name, row.type, help_of(member.name) + row.help);
      for (const custash_device_stats_t& stats : devices)
        for (std::size_t pool = 0; pool < member.pools; ++pool)
          add_sample(out,
                     name,
                     label_of(stats) + ",pool=\"" + device_stats::kPoolNames[pool] + "\"",
                     device_stats::counter(stats, member, pool).*row.part);
    }
  }
}

void add_numbers(std::string& out, const Devices& devices) {
  for (const auto& member : device_stats::kNumberMembers) {
    const std::string_view plain = without_prefix(member.name);
    const std::string name = "custash_" + std::string(plain);
    add_header(out, name, counts(plain) ? "counter" : "gauge", help_of(plain));
    for (const custash_device_stats_t& stats : devices)
      add_sample(out, name, label_of(stats), device_stats::number(stats, member));
  }
}

// "num_waits", and of the others sums and counts.
bool counts_host(std::string_view name) {
  if (counts(name)) return true;
  for (const std::string_view ending : {".allocated", ".freed", ".total", ".count"})
    if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending)
      return true;
  return false;
}

void add_host(std::string& out) {
  for (const auto& [name, value] : process::pinned().stats().flatten()) {
    std::string metric = "custash_host_" + name;
    std::replace(metric.begin(), metric.end(), '.', '_');
    add_header(out, metric, counts_host(name) ? "counter" : "gauge", "Pinned memory: " + name);
    out += metric + " " + std::to_string(value) + "\n";
  }
}

std::string seconds(std::uint64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

void add_driver_calls(std::string& out) {
  const std::string name = "custash_driver_call_seconds";
  add_header(out, name, "histogram", "Driver calls that custash made");
  for (const driver_calls::Timing& timing : driver_calls::read()) {
    const std::string call = std::string("call=\"") + timing.name + "\"";
    std::uint64_t sum = 0;
    for (std::size_t b = 0; b < timing.buckets.size(); ++b) {
      if (timing.buckets[b] == 0) continue;
      sum += timing.buckets[b];
      add_sample(out,
                 name + "_bucket",
                 call + ",le=\"" + seconds(std::uint64_t{1} << b) + "\"",
                 static_cast<std::int64_t>(sum));
    }
    add_sample(
        out, name + "_bucket", call + ",le=\"+Inf\"", static_cast<std::int64_t>(timing.count));
    add_sample(out, name + "_count", call, static_cast<std::int64_t>(timing.count));
    out += name + "_sum{" + call + "} " + seconds(timing.total_ns) + "\n";
  }
}

// Of the process: the driver's answers name no device.
void add_passed(std::string& out) {
  struct Row {
    const char* name;
    const char* type;
    const char* help;
    std::uint64_t passed::PassedCount::*value;
  };

  constexpr Row kRows[] = {
      {"custash_passed_total",
       "counter",
       "Allocations of device memory that the driver served itself",
       &passed::PassedCount::calls},
      {"custash_passed_bytes_total", "counter", "Their bytes", &passed::PassedCount::bytes},
      {"custash_passed_live",
       "gauge",
       "Handles, arrays and the like that the program has",
       &passed::PassedCount::live},
      {"custash_passed_live_bytes", "gauge", "Their bytes", &passed::PassedCount::live_bytes}};
  const passed::PassedCounts counts = passed::table().read();
  for (const Row& row : kRows) {
    add_header(out, row.name, row.type, row.help);
    for (std::size_t i = 0; i < passed::kKinds; ++i)
      add_sample(out,
                 row.name,
                 std::string("kind=\"") + passed::name_of(static_cast<passed::Kind>(i)) + "\"",
                 static_cast<std::int64_t>(counts[i].*row.value));
  }
}

void add_check_streams(std::string& out) {
  const std::string name = "custash_check_streams_seconds_total";
  add_header(out, name, "counter", "Time that check_streams kept the program's calls");
  out += name + " " + seconds(streams::CheckTime::nanoseconds()) + "\n";
}

}  // namespace

std::string prometheus(Allocator& core, const std::vector<int>& devices) {
  Devices read;
  for (const int device : devices)
    read.push_back(device_stats::read(core, device));
  std::string out;
  add_counters(out, read);
  add_numbers(out, read);
  add_host(out);
  add_passed(out);
  add_driver_calls(out);
  add_check_streams(out);
  return out;
}

}  // namespace custash::stats_text
