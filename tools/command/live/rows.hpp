// SPDX-License-Identifier: MIT
// The table of `custash top`: a row for each device of a process, and the table of columns. A
// new column is one row of columns(). Pure.
#pragma once

#include "tools/command/live/devices.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace custash::live {

struct Row {
  const Seen* process;
  const Program* program;  // null: nothing is known beside the page
  const DevicePart* part;
  const DevicePart* before;          // null: not seen before, or it has begun anew
  double seconds;                    // between the two
  int device;                        // its number in the picture above the table
  std::optional<std::int64_t> held;  // by the process, as NVML reports it
};

// Both looks must outlive the rows.
std::vector<Row> rows_of(const Look& before, const Look& now);

// A second's worth of a counter; nothing of one that was not seen before.
std::optional<double> rate(const Row& row, std::int64_t DevicePart::*counter);

// Its script, or its name as in /proc; without control characters.
// "awake", "going to sleep", "asleep", "waking"
const char* sleep_of(const Page& page);
std::string title_of(const Row& row);

struct Column {
  const char* title;
  const char* word;  // for --sort
  int width;
  int importance;  // where the terminal is narrow the least important column goes first
  bool rising;     // the smallest first
  std::string (*text)(const Row& row);
  double (*key)(const Row& row);  // null: by name
};

std::span<const Column> columns();
// Columns that are shown only where they say something.
inline constexpr const char* kByDriver = "by-driver";

// By --sort's word; null: there is none.
const Column* column_of(std::string_view word);
inline constexpr const char* kDefaultSort = "in-use";

// Rows that are equal there: by rank, by process, by device.
void sort_rows(std::vector<Row>& rows, const Column& by, bool reversed);

}  // namespace custash::live
