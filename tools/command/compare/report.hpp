// SPDX-License-Identifier: MIT
// The report of a comparison: its table and its sentences, from which each form is made. Pure.
#pragma once

#include "tools/command/compare/command.hpp"
#include "tools/command/compare/result.hpp"
#include "tools/command/compare/statistics.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace custash::compare {

enum class Unit { Seconds, Bytes, Plain };

// One quantity, of each side.
struct Row {
  std::string name;
  Unit unit = Unit::Seconds;
  std::array<std::vector<double>, 2> values;  // by Side, one a round
  std::array<Spread, 2> spreads;
  Judged judged;
};

struct Report {
  std::array<std::string, 2> sides;  // their names
  std::string ratio;                 // that of the two: "without / with"
  std::string program;
  std::string setting;    // rounds, warm-up
  std::string subject;    // custash's version and options, the GPU, the date
  std::vector<Row> rows;  // of time first; none where no round is complete
  std::vector<std::string> verdicts;
  std::vector<std::string> facts;   // what custash did
  std::vector<std::string> checks;  // output and exit status
  std::vector<std::string> advice;
  std::vector<std::string> warnings;
  std::optional<Served> served;       // of the median run
  std::optional<std::int64_t> saved;  // nanoseconds in the driver
  bool same = true;                   // output and exit status
};

// `date` is today's.
Report report_of(const CommandOptions& options,
                 const Comparison& comparison,
                 const std::string& date);

// Of custash: "0.2.0".
std::string version_text();

// The row's values in a unit that suits them: "1.234 s", "87.0 ms", "1.20 GiB".
std::string shown(double value, const Row& row);

// "1.25 x"; "-" where there is none.
std::string shown_ratio(double ratio);

}  // namespace custash::compare
