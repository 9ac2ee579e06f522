// SPDX-License-Identifier: MIT
#include "interpose/process/output_kind.hpp"
#include "tools/command/snapshot/found.hpp"
#include "tools/command/snapshot/named.hpp"
#include "tools/command/snapshot/report_page.hpp"
#include "tools/plot/svg.hpp"

#include <algorithm>
#include <map>

namespace custash::snapshot {
namespace {

using page::tag;

constexpr const char* kStyle =
    "article { border-top: 1px solid var(--grid); margin-top: 2rem }\n"
    "h2, h3, summary { overflow-wrap: anywhere } h3, h4 { font-size: 1rem; margin: .8rem 0 .2rem }\n"
    "h4 { font-weight: normal; color: var(--soft) }\n"
    ".stacks { display: flex; flex-wrap: wrap; gap: 0 2.5rem }\n"
    ".stacks > div { flex: 1 1 18rem; min-width: 0 }\n"
    "ol { margin: 0; padding-left: 1.6rem; font: 13px/1.5 monospace }\n"
    "svg { width: 100%; max-width: 36rem; height: auto; font: 13px sans-serif }\n"
    ".block { fill: none; stroke: var(--text) } .hit { stroke: #d33; stroke-width: 3 }\n"
    ".edge { stroke: var(--soft); stroke-dasharray: 4 4 }\n"
    "a { color: inherit }\n";

// Throws where it is none.
const Json::array_t& list(const Json& object, const char* name) {
  return object.at(name).get_ref<const Json::array_t&>();
}

std::string stack_html(const char* title, const Json& finding, const Json& stack) {
  if (stack.empty()) return "";
  std::string out = "<div>" + tag("h4", title) + "<ol>";
  for (const std::string& frame : stack_text(finding, stack))
    out += tag("li", frame);
  return out + "</ol></div>";
}

// Where on a picture of the block the access was, from 0 (its beginning) to 1 (its end). The
// distance outside is not to scale. Less than -1: there is no such place.
double place_of(const Json& suspect) {
  const auto kind = suspect.at("kind").get<std::string>();
  const auto distance = suspect.at("distance").get<double>();
  const double bytes = std::max(1.0, suspect.at("bytes").get<double>());
  constexpr double kOutside = 0.12;
  if (distance == 0) return -2;
  if (kind == "past_end") return 1 + kOutside;
  if (kind == "before_beginning") return -kOutside;
  return kind == "part_free" ? std::min(1.0, distance / bytes) : -2;
}

// The block as a box, and a mark where the access was.
std::string picture(const Json& suspect) {
  const double place = place_of(suspect);
  if (place < -1) return "";
  constexpr double kLeft = 120;
  constexpr double kWidth = 260;
  const auto x = [&](double at) { return svg::number(kLeft + at * kWidth); };
  const auto upright = [&](const char* kind, double at, double top, double bottom) {
    return std::string("<path class=\"") + kind + "\" d=\"M" + x(at) + ' ' + svg::number(top) +
           'V' + svg::number(bottom) + "\"/>";
  };
  const auto bytes = std::to_string(suspect.at("distance").get<std::uint64_t>());
  const bool inside = place >= 0 && place <= 1;
  return "<svg viewBox=\"0 0 500 76\" role=\"img\" aria-label=\"" + bytes + " bytes " +
         (inside      ? "after the beginning"
          : place > 1 ? "past the end"
                      : "before the beginning") +
         "\"><rect class=\"block\" x=\"" + x(0) + "\" y=\"14\" width=\"" + svg::number(kWidth) +
         "\" height=\"28\"/>" + upright("edge", 0, 4, 52) + upright("edge", 1, 4, 52) +
         upright("hit", place, 10, 46) +
         svg::text({kLeft + kWidth / 2, 33},
                   "middle",
                   inside
                       ? ""
                       : std::to_string(suspect.at("bytes").get<std::uint64_t>()) + " bytes") +
         svg::text({kLeft + place * kWidth, 66}, "middle", (place < 0 ? "-" : "+") + bytes) +
         "</svg>\n";
}

std::string suspect_html(const Json& finding, const Json& suspect) {
  return tag("h3", suspect.at("text").get<std::string>()) + "\n" + picture(suspect) +
         "<div class=\"stacks\">" +
         stack_html("allocated by", finding, suspect.at("allocated_by")) +
         stack_html("freed by", finding, suspect.at("freed_by")) + "</div>\n";
}

std::string work_html(const Json& finding, const Json& work) {
  std::string line = work.at("text").get<std::string>();
  if (list(work, "by").empty()) return tag("p", line) + "\n";
  return "<details>" + tag("summary", line) +
         stack_html("submitted by", finding, work.at("by")) + "</details>\n";
}

std::string finding_html(const Json& finding, std::size_t number) {
  std::string out =
      "<article id=\"" + std::to_string(number) + "\">" +
      tag("h2", std::to_string(number) + ". " + finding.at("text").get<std::string>()) + "\n";
  if (const auto doubt = finding.at("doubt").get<std::string>(); !doubt.empty())
    out += tag("p", doubt) + "\n";
  for (const Json& suspect : list(finding, "suspects"))
    out += suspect_html(finding, suspect);
  if (finding.at("source") != "streams") {  // where the stack stands above
    const std::string found = stack_html("found in", finding, finding.at("found_in"));
    if (!found.empty()) out += "<div class=\"stacks\">" + found + "</div>\n";
  }
  if (!list(finding, "work").empty())
    out += tag("h4",
               finding.at("certain").get<bool>() ? "used by, newest first"
                                                 : "the last work, newest first") +
           "\n";
  for (const Json& work : list(finding, "work"))
    out += work_html(finding, work);
  return out + "</article>\n";
}

// How many findings there are of each kind, most first.
std::string sums_html(const Json::array_t& findings) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> kinds;  // how many, the first
  std::size_t number = 0;
  for (const Json& finding : findings) {
    auto& [count, first] = kinds[finding.at("text").get<std::string>()];
    ++number;
    if (count++ == 0) first = number;
  }
  std::vector<std::pair<std::string, std::pair<std::size_t, std::size_t>>> sorted(kinds.begin(),
                                                                                  kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.first > b.second.first;
  });
  std::string out = "<ul>\n";
  for (const auto& [text, found] : sorted)
    out += "<li>" + std::to_string(found.first) + " × <a href=\"#" +
           std::to_string(found.second) + "\">" + svg::escaped(text) + "</a></li>\n";
  return out + "</ul>\n";
}

std::string page_of(const Json& report) {
  const Json::array_t& findings = list(report, "findings");
  const auto found = report.at("found").get<std::uint64_t>();
  std::string out = page::head("custash: findings", kStyle) +
                    tag("h1", report.at("program").get<std::string>()) + "\n" +
                    tag("p",
                        "Process " + std::to_string(report.at("pid").get<std::int64_t>()) +
                            ": " + report.at("checked").get<std::string>() + "." +
                            (found > findings.size() ? " The file has the first " +
                                                           std::to_string(findings.size()) + "."
                                                     : "")) +
                    "\n" + sums_html(findings);
  std::size_t number = 0;
  for (const Json& finding : findings)
    out += finding_html(finding, ++number);
  return out + "</body></html>\n";
}

}  // namespace

bool is_guard_report(std::string_view bytes) {
  return output::kind_of(bytes) == output::Kind::GuardReport;
}

std::string findings_page(const std::string& name, std::string_view bytes, bool* complete) {
  try {
    Json report = parse_json(name, bytes, {});
    *complete = name_findings(&report, names::Servers::Ask);
    return page_of(report);
  } catch (const Json::exception&) {
    throw BadSnapshot(name + ": no whole guard report");
  }
}

}  // namespace custash::snapshot
