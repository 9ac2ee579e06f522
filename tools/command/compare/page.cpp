// SPDX-License-Identifier: MIT
// One page, with nothing from elsewhere. Its head marks it as custash's, so that custash
// replaces it.
#include "interpose/process/printable.hpp"
#include "tools/command/compare/forms.hpp"
#include "tools/plot/svg.hpp"

namespace custash::compare {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"custash\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>custash compare</title>\n<style>\n"
    ":root { color-scheme: light dark; --text: #222; --grid: #ddd; --back: #fff; --soft: #666 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --text: #ddd; --grid: #3a3d42; --back: #17191c; --soft: #9aa0a6 }\n}\n"
    "body { font: 15px/1.5 sans-serif; color: var(--text); background: var(--back);\n"
    "  max-width: 64rem; margin: 2rem auto; padding: 0 1rem }\n"
    "h1 { font-size: 1.2rem; overflow-wrap: anywhere } h2 { font-size: 1rem }\n"
    ".soft { color: var(--soft) } .wide { overflow-x: auto }\n"
    "svg { fill: var(--text) }\n"
    "svg path[stroke=\"#ddd\"] { stroke: var(--grid) }\n"
    "table { border-collapse: collapse } td, th { padding: .3rem .8rem; text-align: right;\n"
    "  border-bottom: 1px solid var(--grid); white-space: nowrap }\n"
    "td:first-child, th:first-child { text-align: left; padding-left: 0 }\n"
    "li { overflow-wrap: anywhere }\n"
    "</style></head><body>\n";

std::string tag(const char* name, const std::string& text) {
  return std::string("<") + name + ">" + svg::escaped(printable(text)) + "</" + name + ">";
}

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
  std::string out = kHead + tag("h1", report.program) + "\n<p class=\"soft\">" +
                    svg::escaped(report.setting) + "<br>" +
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
