// SPDX-License-Identifier: MIT
#include "interpose/process/printable.hpp"
#include "tools/command/doctor/examine.hpp"
#include "tools/text.hpp"

#include <algorithm>

namespace custash::doctor {
namespace {

const char* name_of(Level level) {
  switch (level) {
    case Level::Ok:
      return "ok";
    case Level::Note:
      return "note";
    case Level::Warning:
      return "warning";
    case Level::Problem:
      return "problem";
  }
  return "";
}

const char* colour_of(Level level) {
  switch (level) {
    case Level::Ok:
      return "32";
    case Level::Note:
      return "36";
    case Level::Warning:
      return "33";
    case Level::Problem:
      return "1;31";
  }
  return "";
}

}  // namespace

bool any_problem(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::Problem;
  });
}

std::string as_text(const Findings& findings, bool colours) {
  std::string out;
  for (const Finding& finding : findings) {
    if (colours) add(out, "\033[%sm", colour_of(finding.level));
    add(out, "%-8s", name_of(finding.level));
    if (colours) out += "\033[0m";
    out += printable(finding.subject + ": " + finding.what) + "\n";
    if (!finding.advice.empty()) out += "           -> " + printable(finding.advice) + "\n";
  }
  return out;
}

std::string as_json(const Findings& findings) {
  std::string out = "{\"findings\": [";
  const char* between = "\n  ";
  for (const Finding& finding : findings) {
    out += between;
    out += "{\"level\": " + json_string(name_of(finding.level)) +
           ", \"subject\": " + json_string(finding.subject) +
           ", \"what\": " + json_string(finding.what) +
           ", \"advice\": " + json_string(finding.advice) + "}";
    between = ",\n  ";
  }
  return out + "\n]}\n";
}

}  // namespace custash::doctor
