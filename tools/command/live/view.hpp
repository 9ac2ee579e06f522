// SPDX-License-Identifier: MIT
// One screen of `custash top`, of two looks at the processes. Pure.
#pragma once

#include "tools/command/live/rows.hpp"

#include <optional>
#include <string>
#include <vector>

namespace custash::live {

// A line of the table: a process on a device.
struct RowName {
  std::int64_t pid = 0;
  int device = 0;

  bool operator==(const RowName&) const = default;
};

struct ViewOptions {
  std::size_t width = 0;   // of the terminal; 0: no limit
  std::size_t height = 0;  // 0: no limit
  bool colour = false;
  bool unicode = false;
  bool keys = false;             // a person may press keys: they are listed
  bool help = false;             // in place of the table
  const Column* sort = nullptr;  // null: kDefaultSort
  bool reversed = false;
  std::optional<RowName> chosen;
  std::string message;    // the answer to the last key
  bool question = false;  // the message waits for an answer
};

// Rates are between the two looks at a process; they are unknown for a new process. No line
// is wider than the terminal, and there are no more than fit.
std::vector<std::string> view_of(const Look& before, const Look& now, const ViewOptions& how);

// The table's lines in their order.
std::vector<RowName> names_of(const Look& before, const Look& now, const ViewOptions& how);

}  // namespace custash::live
