// SPDX-License-Identifier: MIT
#include "interpose/counters/passed_counts.hpp"
#include "tools/command/live/look.hpp"
#include "tools/command/live/rows.hpp"
#include "tools/text.hpp"

#include <algorithm>

namespace custash::live {
namespace {

void add_rates(std::string& out, const Row& row) {
  struct Named {
    const char* name;
    std::int64_t DevicePart::*counter;
  };

  const char* separator = "";
  for (const Named& each : {Named{"allocations", &DevicePart::allocations},
                            Named{"frees", &DevicePart::frees},
                            Named{"driver_calls", &DevicePart::driver_calls},
                            Named{"pages_moved", &DevicePart::pages_moved},
                            Named{"gpu_waits", &DevicePart::gpu_waits},
                            Named{"stalls_avoided", &DevicePart::stalls_avoided}}) {
    const auto value = rate(row, each.counter);
    add(out, "%s\"%s\":", separator, each.name);
    value ? add(out, "%.3f", *value) : add(out, "null");
    separator = ",";
  }
}

void add_device(std::string& out, const Row& row) {
  const DevicePart& part = *row.part;

  struct Named {
    const char* name;
    std::int64_t value;
  };

  add(out,
      "{\"device\":%lld,\"bus\":%s",
      static_cast<long long>(part.device),
      json_string(part.bus).c_str());
  for (const Named& each : {Named{"total_bytes", part.total_bytes},
                            Named{"allocated_bytes", part.allocated_bytes},
                            Named{"allocated_bytes_peak", part.allocated_peak},
                            Named{"reserved_bytes", part.reserved_bytes},
                            Named{"limbo_bytes", part.limbo_bytes},
                            Named{"by_driver_bytes", part.by_driver_bytes},
                            Named{"imported_bytes", part.imported_bytes},
                            Named{"asleep_bytes", part.asleep_bytes},
                            Named{"allocations", part.allocations},
                            Named{"frees", part.frees},
                            Named{"driver_calls", part.driver_calls},
                            Named{"pages_moved", part.pages_moved},
                            Named{"gpu_waits", part.gpu_waits},
                            Named{"stalls_avoided", part.stalls_avoided},
                            Named{"free_waits", part.free_waits},
                            Named{"ooms", part.ooms}})
    add(out, ",\"%s\":%lld", each.name, static_cast<long long>(each.value));
  const auto held = row.held;
  add(out, ",\"nvml_bytes\":%s", held ? std::to_string(*held).c_str() : "null");
  add(out,
      ",\"unexplained_bytes\":%s",
      held ? std::to_string(*held - on_device(part)).c_str() : "null");
  add(out, ",\"per_second\":{");
  add_rates(out, row);
  out += "}}";
}

void add_program(std::string& out, const Look& now, const Page& page) {
  const auto found = now.programs.find(page.pid);
  const Program program = found == now.programs.end() ? Program{page.name, {}} : found->second;
  out += ",\"script\":" + json_string(program.name);
  out += ",\"rank\":" + (program.rank ? std::to_string(*program.rank) : "null");
}

// Calls that the driver served itself, by kind.
void add_passed(std::string& out, const Page& page) {
  out += ",\"passed\":[";
  const char* separator = "";
  for (std::size_t i = 0; i < kPassedKinds; ++i) {
    const PassedPart& part = page.by_driver[i];
    if (part.allocations == 0 && part.live == 0) continue;
    add(out,
        "%s{\"kind\":\"%s\",\"allocations\":%lld,\"allocated_bytes\":%lld,\"live\":%lld,"
        "\"live_bytes\":%lld}",
        separator,
        passed::name_of(static_cast<passed::Kind>(i)),
        static_cast<long long>(part.allocations),
        static_cast<long long>(part.allocated_bytes),
        static_cast<long long>(part.live),
        static_cast<long long>(part.live_bytes));
    separator = ",";
  }
  out += "]";
}

void add_uses(std::string& out, const Look& now) {
  const char* separator = "";
  for (const DeviceUse& use : uses_of(now)) {
    add(out,
        "%s{\"number\":%d,\"total_bytes\":%llu,\"in_use_bytes\":%llu,\"cached_bytes\":%llu",
        separator,
        use.number,
        static_cast<unsigned long long>(use.total),
        static_cast<unsigned long long>(use.in_use),
        static_cast<unsigned long long>(use.cached));
    out += ",\"others_bytes\":" + (use.others ? std::to_string(*use.others) : "null") + "}";
    separator = ",";
  }
}

}  // namespace

double age_of(const Look& now, const Page& page) {
  return std::max<double>(0, static_cast<double>(now.at - page.updated) / 1e9);
}

std::string json_of(const Look& before, const Look& now) {
  std::string out = "{\"processes\":[";
  const std::vector<Row> rows = rows_of(before, now);
  const char* separator = "";
  for (const Seen& each : now.seen) {
    add(out,
        "%s{\"pid\":%lld,\"program\":%s",
        separator,
        static_cast<long long>(each.page.pid),
        json_string(each.page.name).c_str());
    add_program(out, now, each.page);
    add(out,
        ",\"answered\":%s,\"sleep\":\"%s\",\"age_seconds\":%.3f,\"pinned_bytes\":%lld",
        each.answered ? "true" : "false",
        sleep_of(each.page),
        age_of(now, each.page),
        static_cast<long long>(each.page.pinned_bytes));
    add_passed(out, each.page);
    out += ",\"devices\":[";
    const char* comma = "";
    for (const Row& row : rows) {
      if (row.process != &each) continue;
      out += comma;
      add_device(out, row);
      comma = ",";
    }
    out += "]}";
    separator = ",";
  }
  out += "],\"devices\":[";
  add_uses(out, now);
  return out + "]}\n";
}

}  // namespace custash::live
