// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
#include "tools/command/compare/forms.hpp"

#include <algorithm>
#include <string>

namespace {

using namespace custash::compare;

Comparison four_rounds(const Served& served) {
  Comparison comparison;
  for (int i = 0; i < 4; ++i) {
    Round round;
    round.runs[index_of(Side::Without)].wall = 1;
    round.runs[index_of(Side::With)].wall = 2;
    round.runs[index_of(Side::With)].served = served;
    comparison.rounds.push_back(round);
  }
  return comparison;
}

bool has_line(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("more driver calls than without custash are told as such") {
  Served served;
  served.processes = 1;
  served.allocations = served.frees = 10;
  served.driver_calls = 5;
  CHECK(has_line(report_of({}, four_rounds(served), "").facts,
                 "driver calls: 15 avoided; custash made 5 instead of 20"));
  served.driver_calls = 50;
  CHECK(has_line(report_of({}, four_rounds(served), "").facts,
                 "driver calls: 30 more; custash made 50 instead of 20"));
}

TEST_CASE("a report says what was compared") {
  CommandOptions options;
  options.conf = "run_ahead:50";
  options.with_env = {"A=1"};
  Comparison comparison = four_rounds({});
  comparison.gpu = "NVIDIA H200";
  comparison.interrupted = 2;
  const Report report = report_of(options, comparison, "2026-01-02");
  CHECK(report.subject ==
        "custash " + version_text() + " with run_ahead:50, A=1; NVIDIA H200; 2026-01-02");
  CHECK(has_line({report.setting}, "; interrupted"));
}

TEST_CASE("ends that differ are told once for each side") {
  Comparison comparison = four_rounds({});
  for (Round& round : comparison.rounds)
    round.runs[index_of(Side::With)].status = 3 << 8;
  CHECK(has_line(report_of({}, comparison, "").checks,
                 "end: differs with custash; without: exit status 0 in all 4; with: exit "
                 "status 3 in all 4"));
}

TEST_CASE("a difference is shown where it is") {
  const auto told = [](const std::string& before, const std::string& after) {
    Comparison comparison = four_rounds({});
    comparison.outputs.changed = Difference{7, before, after};
    return report_of({}, comparison, "")
        .checks.front()
        .substr(std::string("standard output: differs with custash, first in line 7: ").size());
  };
  const std::string same(100, 's');
  CHECK(told("a\n", "b\n") == "'a' / 'b'");
  CHECK(told("a\n", "") == "'a' / no such line");
  CHECK(told("\n", "") == "'' / no such line");
  CHECK(told("a", "a\n") == "'a' has an end of line in one of the two runs only");
  CHECK(told(same + "1\n", same + "2\n") ==
        "'..." + same.substr(80) + "1' / '..." + same.substr(80) + "2'");
  CHECK(told("x" + same, "y" + same) ==
        "'x" + same.substr(41) + "...' / 'y" + same.substr(41) + "...'");
}

TEST_CASE("every form is text, whatever the program's name") {
  CommandOptions options;
  options.program = {std::string(89, 'p') + "\xc3\xa4", "\xff", "<&>#"};
  const Report report = report_of(options, four_rounds({}), "");
  CHECK(as_picture(report).find(std::string(89, 'p') + "...<") != std::string::npos);
  CHECK(as_page(report).find("\xc3\xa4 \\xff &lt;&amp;>#</h1>") != std::string::npos);
  CHECK(as_markdown(report).find("\xc3\xa4 \\\\xff \\<\\&\\>#: ") != std::string::npos);
  options.program = {"1. # >"};
  CHECK(as_markdown(report_of(options, four_rounds({}), "")).find("\n1\\. # \\>: ") !=
        std::string::npos);
}

TEST_CASE("the picture of any number has an end") {
  for (const double value : {1e-323, 1.79e308, -5.0, 0.0}) {
    Comparison comparison = four_rounds({});
    for (Round& round : comparison.rounds)
      for (Run& run : round.runs)
        run.metric = value;
    CommandOptions options;
    options.metric = "x";
    const std::string picture = as_picture(report_of(options, comparison, ""));
    CHECK(picture.size() < 100'000);
    CHECK(picture.find("nan") == std::string::npos);
    CHECK(picture.find("inf\"") == std::string::npos);
  }
}
