// SPDX-License-Identifier: MIT
// The forms of a report: for the terminal, as JSON, Markdown, a picture and a page. Pure.
#pragma once

#include "tools/command/compare/report.hpp"

#include <array>
#include <string>
#include <vector>

namespace custash::compare {

std::string as_text(const Report& report);

// "custash comparison 1": all runs, and what the report says of them (docs/performance.md).
std::string as_json(const CommandOptions& options,
                    const Comparison& comparison,
                    const Report& report,
                    const std::string& date);

std::string as_markdown(const Report& report);

// Time by rounds, and memory. The two need a complete round.
std::string as_picture(const Report& report);
std::string as_page(const Report& report);

// The table's cells, the head first.
std::vector<std::vector<std::string>> table_of(const Report& report);

struct Part {
  const char* title;
  const std::vector<std::string>& lines;  // the report's; empty: the part is left out
};

// What every form says beside the table, in this order.
inline std::array<Part, 5> parts_of(const Report& report) {
  return {{{"Result", report.verdicts},
           {"What custash did (median run)", report.facts},
           {"Output and end", report.checks},
           {"What may help", report.advice},
           {"Note", report.warnings}}};
}

struct Drawing {
  double width = 0;
  double height = 0;
  std::string body;
};

// The parts of the picture. The page gives the grid another colour.
inline constexpr const char* kGridColour = "#ddd";
Drawing draw(const Report& report);

}  // namespace custash::compare
