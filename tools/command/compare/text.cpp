// SPDX-License-Identifier: MIT
// For the terminal, and as Markdown: the same cells.
#include "tools/text.hpp"

#include "interpose/process/printable.hpp"
#include "tools/command/compare/forms.hpp"
#include "tools/output_file.hpp"

#include <algorithm>
#include <cmath>

namespace custash::compare {
namespace {

std::string without_unit(const std::string& number) {
  return number.substr(0, number.find(' '));
}

// "136.0 ms (103.9 - 213.2)": times have one unit, bytes may have several.
std::string cell_of(const Row& row, Side side) {
  const Spread& spread = row.spreads.at(index_of(side));
  const auto bound = [&](double value) {
    const std::string text = shown(value, row);
    return row.unit == Unit::Bytes ? text : without_unit(text);
  };
  return shown(spread.median, row) + " (" + bound(spread.least) + " - " + bound(spread.most) +
         ")";
}

// "1.25 x (1.20 - 1.31)"
std::string ratio_cell(const Row& row) {
  const Spread& ratio = row.judged.ratio;
  const bool has_ratio = row.spreads[0].median > 0 && row.spreads[1].median > 0;
  if (!std::isfinite(ratio.most) || !has_ratio) return "-";  // a time of zero
  return shown_ratio(ratio.median) + " (" + without_unit(shown_ratio(ratio.least)) + " - " +
         without_unit(shown_ratio(ratio.most)) + ")";
}

void add_table(const Report& report, std::string* out) {
  const auto table = table_of(report);
  std::vector<std::size_t> widths(table.front().size());
  for (const auto& row : table)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : table) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line +=
          row[i] + (i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 3, ' ') : "");
    *out += line + "\n";
  }
}

// "wall time, without / with, by round: 1.21 x, 1.30 x"
std::string rounds_line(const Report& report) {
  const Row& row = report.rows.front();
  std::string out = row.name + ", " + report.ratio + ", by round:";
  for (std::size_t i = 0; i < row.values[0].size(); ++i)
    out += (i == 0 ? " " : ", ") + shown_ratio(row.values[0][i] / row.values[1][i]);
  return out;
}

void add_lines(const Part& part, std::string* out) {
  if (part.lines.empty()) return;
  *out += std::string("\n") + part.title + "\n";
  for (const std::string& line : part.lines)
    *out += "  " + printable(line) + "\n";
}

// Characters that Markdown takes for itself are escaped; some it takes at a line's beginning.
std::string escaped(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : printable(text)) {
    const std::string_view special = begins ? "\\`*_<[|&>#~+-=.)" : "\\`*_<[|&>~";
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
    begins = begins && (c == ' ' || (c >= '0' && c <= '9'));
  }
  return out;
}

void add_list(const Part& part, std::string* out) {
  if (part.lines.empty()) return;
  *out += std::string("\n**") + part.title + "**\n\n";
  for (const std::string& line : part.lines)
    *out += "- " + escaped(line) + "\n";
}

}  // namespace

std::vector<std::vector<std::string>> table_of(const Report& report) {
  std::vector<std::vector<std::string>> table{
      {"median (range)", report.sides[0], report.sides[1], report.ratio}};
  for (const Row& row : report.rows)
    table.push_back(
        {row.name, cell_of(row, Side::Without), cell_of(row, Side::With), ratio_cell(row)});
  return table;
}

std::string as_text(const Report& report) {
  std::string out = printable(report.program) + "\n  " + report.setting + "\n  " +
                    printable(report.subject) + "\n\n";
  if (report.rows.empty()) return out + "  no round is complete\n";
  add_table(report, &out);
  out += "  " + rounds_line(report) + "\n";
  for (const Part& part : parts_of(report))
    add_lines(part, &out);
  return out;
}

std::string as_markdown(const Report& report) {
  std::string out = std::string(output::kComparisonMark) + "\n\n" + escaped(report.program) +
                    ": " + report.setting + ". " + escaped(report.subject) + ".\n\n";
  if (report.rows.empty()) return out + "No round is complete.\n";
  bool head = true;
  for (const auto& row : table_of(report)) {
    out += "|";
    for (const std::string& cell : row)
      out += " " + cell + " |";
    out += head ? "\n| --- | ---: | ---: | ---: |\n" : "\n";
    head = false;
  }
  out += "\n" + rounds_line(report) + "\n";
  for (const Part& part : parts_of(report))
    add_list(part, &out);
  return out;
}

}  // namespace custash::compare
