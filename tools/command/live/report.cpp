// SPDX-License-Identifier: MIT
#include "tools/command/live/report.hpp"

#include "interpose/process/printable.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

namespace custash::live {
namespace {

// One line of the table: a device of a process.
struct Row {
  const Seen* process;
  const DevicePart* part;
  const DevicePart* before;  // null: not seen before, or it has begun anew
  double seconds;            // between the two
};

const Seen* same_in(const Look& look, const Page& page) {
  for (const Seen& each : look.seen)
    if (each.page.pid == page.pid && each.page.nonce == page.nonce) return &each;
  return nullptr;
}

std::vector<Row> rows_of(const Look& before, const Look& now) {
  constexpr double kNanoseconds = 1e9;
  std::vector<Row> rows;
  for (const Seen& each : now.seen) {
    const Seen* const old = same_in(before, each.page);
    const std::int64_t passed = old == nullptr ? 0 : each.page.updated - old->page.updated;
    for (std::int64_t i = 0; i < each.page.device_count; ++i) {
      const DevicePart& part = each.page.devices[i];
      if (part.reserved_bytes == 0 && part.allocations == 0) continue;  // not used
      const bool known = passed > 0 && i < old->page.device_count && old->page.updated > 0;
      rows.push_back({&each,
                      &part,
                      known ? &old->page.devices[i] : nullptr,
                      static_cast<double>(passed) / kNanoseconds});
    }
  }
  return rows;
}

std::optional<double> rate(const Row& row, std::int64_t DevicePart::*counter) {
  if (row.before == nullptr) return std::nullopt;
  return static_cast<double>(row.part->*counter - row.before->*counter) / row.seconds;
}

std::string short_rate(std::optional<double> value) {
  std::string text;
  if (!value)
    text = "-";
  else if (*value >= 1e6)
    add(text, "%.1fM", *value / 1e6);
  else if (*value >= 1e4)
    add(text, "%.0fk", *value / 1e3);
  else
    add(text, "%.0f", *value);
  return text;
}

double age_of(const Look& now, const Page& page) {
  return std::max<double>(0, static_cast<double>(now.at - page.updated) / 1e9);
}

std::string row_text(const Look& now, const Row& row) {
  const DevicePart& part = *row.part;
  std::string line;
  add(line,
      "%8lld %3lld",
      static_cast<long long>(row.process->page.pid),
      static_cast<long long>(part.device));
  for (const std::int64_t bytes :
       {part.allocated_bytes, part.reserved_bytes, part.limbo_bytes, part.allocated_peak})
    add(line, " %9s", human(static_cast<Bytes>(std::max<std::int64_t>(bytes, 0))).c_str());
  add(line, " %8s", short_rate(rate(row, &DevicePart::allocations)).c_str());
  add(line, " %8s", short_rate(rate(row, &DevicePart::driver_calls)).c_str());
  add(line, " %9s", short_rate(static_cast<double>(part.stalls_avoided)).c_str());
  add(line, "  %s", printable(row.process->page.name).c_str());
  if (!row.process->answered)
    add(line, "  (does not answer; %.0f s ago)", age_of(now, row.process->page));
  return line;
}

void add_rates(std::string& out, const Row& row) {
  struct Named {
    const char* name;
    std::int64_t DevicePart::*counter;
  };

  const char* separator = "";
  for (const Named& each : {Named{"allocations", &DevicePart::allocations},
                            Named{"frees", &DevicePart::frees},
                            Named{"driver_calls", &DevicePart::driver_calls},
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
                            Named{"allocations", part.allocations},
                            Named{"frees", part.frees},
                            Named{"driver_calls", part.driver_calls},
                            Named{"gpu_waits", part.gpu_waits},
                            Named{"stalls_avoided", part.stalls_avoided},
                            Named{"free_waits", part.free_waits},
                            Named{"ooms", part.ooms}})
    add(out, ",\"%s\":%lld", each.name, static_cast<long long>(each.value));
  add(out, ",\"per_second\":{");
  add_rates(out, row);
  out += "}}";
}

}  // namespace

std::string table_of(const Look& before,
                     const Look& now,
                     std::size_t width,
                     std::size_t height) {
  const std::vector<Row> rows = rows_of(before, now);
  std::set<std::string> devices;
  std::int64_t pinned = 0;
  for (const Row& row : rows)
    devices.insert(row.part->bus[0] != '\0' ? std::string(row.part->bus)
                                            : std::to_string(row.part->device));
  for (const Seen& each : now.seen)
    pinned += each.page.pinned_bytes;
  std::vector<std::string> lines(1);
  add(lines[0],
      "custash top: processes %zu, devices %zu, pinned host memory %s",
      now.seen.size(),
      devices.size(),
      human(static_cast<Bytes>(pinned)).c_str());
  lines.emplace_back();
  lines.emplace_back(
      "     PID DEV    IN USE  RESERVED     LIMBO      PEAK  ALLOC/S DRIVER/S   AVOIDED  "
      "PROGRAM");
  for (const Row& row : rows)
    lines.push_back(row_text(now, row));
  if (now.seen.empty())
    lines.emplace_back("no program of this user runs under custash (custash run -- PROGRAM)");
  if (height > 1 && lines.size() > height - 1) {
    const std::size_t hidden = lines.size() - (height - 2);
    lines.resize(height - 2);
    lines.emplace_back();
    add(lines.back(), "... %zu more", hidden);
  }
  std::string text;
  for (const std::string& line : lines)
    text += (width == 0 ? line : line.substr(0, width)) + "\n";
  return text;
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
    add(out,
        ",\"answered\":%s,\"age_seconds\":%.3f,\"pinned_bytes\":%lld,\"devices\":[",
        each.answered ? "true" : "false",
        age_of(now, each.page),
        static_cast<long long>(each.page.pinned_bytes));
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
  return out + "]}\n";
}

}  // namespace custash::live
