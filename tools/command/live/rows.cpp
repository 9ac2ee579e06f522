// SPDX-License-Identifier: MIT
#include "tools/command/live/rows.hpp"

#include "interpose/process/printable.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

namespace custash::live {
namespace {

const Seen* same_in(const Look& look, const Page& page) {
  for (const Seen& each : look.seen)
    if (each.page.pid == page.pid && each.page.nonce == page.nonce) return &each;
  return nullptr;
}

std::string short_count(std::optional<double> value) {
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

template <std::int64_t DevicePart::*kMember>
std::string bytes_text(const Row& row) {
  return human(static_cast<Bytes>(std::max<std::int64_t>(row.part->*kMember, 0)));
}

template <std::int64_t DevicePart::*kMember>
double value(const Row& row) {
  return static_cast<double>(row.part->*kMember);
}

template <std::int64_t DevicePart::*kMember>
std::string rate_text(const Row& row) {
  return short_count(rate(row, kMember));
}

template <std::int64_t DevicePart::*kMember>
double rate_value(const Row& row) {
  return rate(row, kMember).value_or(-1);
}

double rank_of(const Row& row) {
  const bool known = row.program != nullptr && row.program->rank;
  return known ? *row.program->rank : std::numeric_limits<double>::max();
}

double pid_of(const Row& row) {
  return static_cast<double>(row.process->page.pid);
}

template <std::int64_t DevicePart::*kMember>
constexpr Column bytes_column(const char* title, const char* word, int importance) {
  return {title, word, 9, importance, false, bytes_text<kMember>, value<kMember>};
}

template <std::int64_t DevicePart::*kMember>
constexpr Column rate_column(const char* title, const char* word, int importance) {
  return {title, word, 8, importance, false, rate_text<kMember>, rate_value<kMember>};
}

using Part = DevicePart;

// The name comes last and takes the rest of the line.
constexpr std::array kColumns = {
    Column{"PID",
           "pid",
           8,
           13,
           true,
           [](const Row& row) { return std::to_string(row.process->page.pid); },
           pid_of},
    Column{"RANK",
           "rank",
           4,
           11,
           true,
           [](const Row& row) {
             const bool known = row.program != nullptr && row.program->rank;
             return known ? std::to_string(*row.program->rank) : std::string("-");
           },
           rank_of},
    Column{"DEV",
           "device",
           3,
           10,
           true,
           [](const Row& row) { return std::to_string(row.device); },
           [](const Row& row) { return static_cast<double>(row.device); }},
    bytes_column<&Part::allocated_bytes>("IN USE", "in-use", 12),
    bytes_column<&Part::reserved_bytes>("RESERVED", "reserved", 9),
    bytes_column<&Part::limbo_bytes>("LIMBO", "limbo", 4),
    bytes_column<&Part::allocated_peak>("PEAK", "peak", 7),
    bytes_column<&Part::by_driver_bytes>("BY DRIVER", kByDriver, 6),
    rate_column<&Part::allocations>("ALLOC/S", "allocations", 8),
    rate_column<&Part::driver_calls>("DRIVER/S", "driver-calls", 6),
    rate_column<&Part::pages_moved>("MOVES/S", "pages-moved", 3),
    Column{"AVOIDED",
           "avoided",
           9,
           5,
           false,
           [](const Row& row) {
             return short_count(static_cast<double>(row.part->stalls_avoided));
           },
           value<&Part::stalls_avoided>},
    Column{"PROGRAM", "program", 0, 13, true, title_of, nullptr},
};

std::tuple<double, double, int> place_of(const Row& row) {
  return {rank_of(row), pid_of(row), row.device};
}

}  // namespace

std::vector<Row> rows_of(const Look& before, const Look& now) {
  constexpr double kNanoseconds = 1e9;
  const std::vector<DeviceUse> uses = uses_of(now);
  std::vector<Row> rows;
  for (const Seen& each : now.seen) {
    const Seen* const old = same_in(before, each.page);
    const std::int64_t passed = old == nullptr ? 0 : each.page.updated - old->page.updated;
    const auto program = now.programs.find(each.page.pid);
    for (std::int64_t i = 0; i < each.page.device_count; ++i) {
      const DevicePart& part = each.page.devices[i];
      if (!is_used(part)) continue;
      const bool known = passed > 0 && i < old->page.device_count && old->page.updated > 0;
      const int number = number_of(uses, part);
      const auto held = now.held.find({each.page.pid, number});
      rows.push_back({&each,
                      program == now.programs.end() ? nullptr : &program->second,
                      &part,
                      known ? &old->page.devices[i] : nullptr,
                      static_cast<double>(passed) / kNanoseconds,
                      number,
                      held == now.held.end() ? std::nullopt : std::optional(held->second)});
    }
  }
  return rows;
}

std::optional<double> rate(const Row& row, std::int64_t DevicePart::*counter) {
  if (row.before == nullptr) return std::nullopt;
  return static_cast<double>(row.part->*counter - row.before->*counter) / row.seconds;
}

const char* sleep_of(const Page& page) {
  static constexpr const char* kNames[] = {"awake", "going to sleep", "asleep", "waking"};
  return page.sleep > 0 && page.sleep < 4 ? kNames[page.sleep] : kNames[0];
}

std::string title_of(const Row& row) {
  const Page& page = row.process->page;
  const std::string name = printable(row.program != nullptr ? row.program->name : page.name);
  return page.sleep == 0 ? name : name + " (" + sleep_of(page) + ")";
}

std::span<const Column> columns() {
  return kColumns;
}

const Column* column_of(std::string_view word) {
  const auto found = std::find_if(
      kColumns.begin(), kColumns.end(), [&](const Column& each) { return each.word == word; });
  return found == kColumns.end() ? nullptr : &*found;
}

void sort_rows(std::vector<Row>& rows, const Column& by, bool reversed) {
  const bool rising = by.rising != reversed;
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    const Row& first = rising ? a : b;
    const Row& second = rising ? b : a;
    if (by.key == nullptr) {
      const int order = title_of(first).compare(title_of(second));
      if (order != 0) return order < 0;
    } else if (by.key(first) != by.key(second)) {
      return by.key(first) < by.key(second);
    }
    return place_of(a) < place_of(b);
  });
}

}  // namespace custash::live
