// SPDX-License-Identifier: MIT
// The statistics in Prometheus' text format.
#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/passed_counts.hpp"
#include "tools/command/live/stat.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>

namespace custash::statistics {
namespace {

struct Help {
  std::string_view name;
  const char* text;
};

// docs/observing.md says more. A number that is not here has its name for help.
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
    Help{"num_alloc_retries", "Allocations retried after the driver refused memory"},
    Help{"num_ooms", "Allocations that failed for memory"},
    Help{"num_sync_all_streams", "Times that the host waited for a whole context"},
    Help{"num_device_alloc", "Driver calls that allocated memory"},
    Help{"num_device_free", "Driver calls that released memory"},
    Help{"num_fences", "Events recorded at frees"},
    Help{"num_fence_queries", "Queries of such an event"},
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

using nlohmann::ordered_json;
using Devices = std::vector<Statistics>;

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
      for (const auto& [stats, all] : devices)
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
    for (const auto& [stats, all] : devices)
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

void add_host(std::string& out, const ordered_json& all) {
  for (const auto& [name, value] : all.at("host_stats").items()) {
    std::string metric = "custash_host_" + name;
    std::replace(metric.begin(), metric.end(), '.', '_');
    add_header(out, metric, counts_host(name) ? "counter" : "gauge", "Pinned memory: " + name);
    out += metric + " " + std::to_string(value.get<std::int64_t>()) + "\n";
  }
}

std::string seconds(std::uint64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

void add_driver_calls(std::string& out, const ordered_json& all) {
  const std::string name = "custash_driver_call_seconds";
  add_header(out, name, "histogram", "Driver calls that custash made");
  for (const ordered_json& timing : all.at("driver_calls")) {
    const std::string call = "call=\"" + timing.at("name").get<std::string>() + "\"";
    std::map<std::uint64_t, std::int64_t> buckets;  // by their bounds, as numbers
    for (const auto& [up_to, count] : timing.at("up_to_ns").items())
      buckets[std::stoull(up_to)] = count.get<std::int64_t>();
    std::int64_t sum = 0;
    for (const auto& [up_to, count] : buckets) {
      sum += count;
      add_sample(out, name + "_bucket", call + ",le=\"" + seconds(up_to) + "\"", sum);
    }
    const auto count = timing.at("count").get<std::int64_t>();
    add_sample(out, name + "_bucket", call + ",le=\"+Inf\"", count);
    add_sample(out, name + "_count", call, count);
    out += name + "_sum{" + call + "} " + seconds(timing.at("total_ns").get<std::uint64_t>()) +
           "\n";
  }
}

// Of the process: the driver's answers name no device. The JSON leaves out kinds without calls.
void add_passed(std::string& out, const ordered_json& all) {
  struct Row {
    const char* name;
    const char* type;
    const char* help;
    const char* member;
  };

  constexpr Row kRows[] = {
      {"custash_passed_total",
       "counter",
       "Allocations of device memory that the driver served itself",
       "allocations"},
      {"custash_passed_bytes_total", "counter", "Their bytes", "allocated_bytes"},
      {"custash_passed_live",
       "gauge",
       "Handles, arrays and the like that the program has",
       "live"},
      {"custash_passed_live_bytes", "gauge", "Their bytes", "live_bytes"}};
  for (const Row& row : kRows) {
    add_header(out, row.name, row.type, row.help);
    for (const char* const kind : passed::kKindNames) {
      std::int64_t value = 0;
      for (const ordered_json& each : all.at("passed"))
        if (each.at("kind") == kind) value = each.at(row.member).get<std::int64_t>();
      add_sample(out, row.name, std::string("kind=\"") + kind + "\"", value);
    }
  }
}

void add_check_streams(std::string& out, const ordered_json& all) {
  const std::string name = "custash_check_streams_seconds_total";
  add_header(out, name, "counter", "Time that check_streams kept the program's calls");
  const auto time = all.at("check_streams").at("time_ns").get<std::uint64_t>();
  out += name + " " + seconds(time) + "\n";
}

}  // namespace

std::string prometheus_of(const std::vector<Statistics>& devices) {
  std::string out;
  if (devices.empty()) return out;
  add_counters(out, devices);
  add_numbers(out, devices);
  const ordered_json& process = devices.back().all;  // the latest numbers of the whole process
  add_host(out, process);
  add_passed(out, process);
  add_driver_calls(out, process);
  add_check_streams(out, process);
  return out;
}

}  // namespace custash::statistics
