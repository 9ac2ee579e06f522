// SPDX-License-Identifier: MIT

#include "interpose/process/printable.hpp"
#include "tools/command/compare/forms.hpp"
#include "tools/plot/svg.hpp"

namespace custash::compare {
namespace {

using page::tag;

std::string row_html(const char* cell, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& each : cells)
    out += tag(cell, each);
  return out + "</tr>\n";
}

std::string list_html(const Part& part) {
  if (part.lines.empty()) return "";
  std::string out = tag("h2", part.title) + "\n<ul>\n";
  for (const std::string& line : part.lines)
    out += tag("li", line) + "\n";
  return out + "</ul>\n";
}

}  // namespace

std::string as_page(const Report& report) {
  const Drawing drawing = draw(report);
  std::string out = page::head("custash compare") + tag("h1", report.program) +
                    "\n<p class=\"soft\">" + svg::escaped(report.setting) + "<br>" +
                    svg::escaped(printable(report.subject)) + "</p>\n";
  const auto parts = parts_of(report);
  out += list_html(parts[0]);    // above the picture
  constexpr double kTitle = 24;  // the room that the page's own title makes free
  out += "<div class=\"wide\"><svg viewBox=\"0 " + svg::number(kTitle) + " " +
         svg::number(drawing.width) + " " + svg::number(drawing.height - kTitle) +
         "\" width=\"" + svg::number(drawing.width) +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n" + drawing.body +
         "</svg></div>\n<div class=\"wide\"><table>\n";
  const char* cell = "th";
  for (const auto& row : table_of(report)) {
    out += row_html(cell, row);
    cell = "td";
  }
  out += "</table></div>\n";
  for (std::size_t i = 1; i < parts.size(); ++i)
    out += list_html(parts[i]);
  return out + "</body></html>\n";
}

}  // namespace custash::compare
