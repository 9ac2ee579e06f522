// SPDX-License-Identifier: MIT
// torch.cuda.memory_summary's table: its rows, widths and units; custash's own rows after them.
#include "interpose/counters/device_stats.hpp"
#include "tools/command/live/stat.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace custash::statistics {
namespace {

using device_stats::CounterMember;

constexpr const char* kRule =
    "---------------------------------------------------------------------------";
constexpr const char* kDoubleRule =
    "===========================================================================";

__attribute__((format(printf, 2, 3))) void line(std::string& out, const char* format, ...) {
  char text[160];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  out += std::string("|") + text + "|\n";
}

// The unit suits `whole`, so that a row and the parts below it use the same unit.
template <std::size_t kCount>
const char* scale(const char* const (&units)[kCount],
                  std::int64_t step,
                  std::int64_t enough,
                  std::int64_t whole,
                  std::int64_t* value) {
  std::size_t unit = 0;
  for (auto left = static_cast<double>(whole);
       left >= static_cast<double>(enough) && unit + 1 < kCount;
       ++unit) {
    left /= static_cast<double>(step);
    *value /= step;
  }
  return units[unit];
}

std::string bytes_cell(std::int64_t value, std::int64_t whole) {
  constexpr const char* kUnits[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
  const char* const unit = scale(kUnits, 1024, 768LL * 1024, whole, &value);
  char text[32];
  std::snprintf(text, sizeof text, "%6" PRId64 " %s", value, unit);
  return text;
}

std::string count_cell(std::int64_t value, std::int64_t whole) {
  constexpr const char* kUnits[] = {" ", "K", "M"};
  const char* const unit = scale(kUnits, 1000, 750LL * 1000, whole, &value);
  char text[32];
  std::snprintf(text, sizeof text, "%7" PRId64 " %s ", value, unit);
  return text;
}

using Cell = std::string (*)(std::int64_t, std::int64_t);

struct Row {
  const char* member;
  const char* title;
  Cell cell;
};

constexpr Row kRows[] = {
    {"allocated_bytes", "Allocated memory", bytes_cell},
    {"active_bytes", "Active memory", bytes_cell},
    {"requested_bytes", "Requested memory", bytes_cell},
    {"reserved_bytes", "GPU reserved memory", bytes_cell},
    {"inactive_split_bytes", "Non-releasable memory", bytes_cell},
    {"allocation", "Allocations", count_cell},
    {"active", "Active allocs", count_cell},
    {"segment", "GPU reserved segments", count_cell},
    {"inactive_split", "Non-releasable allocs", count_cell},
    {"oversize_allocations", "Oversize allocations", count_cell},
    {"oversize_segments", "Oversize GPU segments", count_cell},
};

void add_counter(std::string& out,
                 const char* title,
                 Cell cell,
                 const custash_counter_t& value,
                 const custash_counter_t& whole) {
  line(out,
       " %-21s | %s | %s | %s | %s ",
       title,
       cell(value.current, whole.current).c_str(),
       cell(value.peak, whole.peak).c_str(),
       cell(value.allocated, whole.allocated).c_str(),
       cell(value.freed, whole.freed).c_str());
}

void add_row(std::string& out, const custash_device_stats_t& stats, const Row& row) {
  for (const CounterMember& member : device_stats::kCounterMembers) {
    if (std::string(row.member) != member.name) continue;
    const custash_counter_t& all = device_stats::counter(stats, member, CUSTASH_ALL);
    line(out, "%s", kRule);
    add_counter(out, row.title, row.cell, all, all);
    if (member.pools == 1) return;
    add_counter(out,
                "      from large pool",
                row.cell,
                device_stats::counter(stats, member, CUSTASH_LARGE),
                all);
    add_counter(out,
                "      from small pool",
                row.cell,
                device_stats::counter(stats, member, CUSTASH_SMALL),
                all);
  }
}

}  // namespace

std::string table_of(const custash_device_stats_t& stats) {
  std::string out;
  line(out, "%s", kDoubleRule);
  line(out,
       " %16s custash CUDA memory summary, device ID %-17d ",
       "",
       static_cast<int>(stats.device));
  line(out, "%s", kRule);
  line(out,
       "  %9s CUDA OOMs: %-12" PRId64 " | %6s cudaMalloc retries: %-8" PRId64 "  ",
       "",
       stats.num_ooms,
       "",
       stats.num_alloc_retries);
  line(out, "%s", kDoubleRule);
  line(out, "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ");
  for (const Row& row : kRows)
    add_row(out, stats, row);
  line(out, "%s", kDoubleRule);
  line(out,
       " Waiting for work in flight %s | Largest free block    %s    ",
       bytes_cell(stats.limbo_bytes, stats.limbo_bytes).c_str(),
       bytes_cell(stats.largest_free_block, stats.largest_free_block).c_str());
  line(out,
       " Free, not in that block  %7.1f %%  | Frees that did not wait %8" PRId64 " %4s",
       static_cast<double>(stats.fragmentation) / 10,
       stats.num_stalls_avoided,
       "");
  line(out, "%s", kDoubleRule);
  return out;
}

}  // namespace custash::statistics
