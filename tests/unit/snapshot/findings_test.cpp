// SPDX-License-Identifier: MIT
// The page of a guard report: all that the report has is on it, as text, and a report that is
// not whole is refused.
#include "tests/catch.hpp"
#include "tools/command/snapshot/read.hpp"
#include "tools/command/snapshot/report_page.hpp"

namespace custash::snapshot {
namespace {

Json suspect(const char* kind, int distance, const char* text) {
  return {{"text", text},
          {"kind", kind},
          {"distance", distance},
          {"bytes", 4000},
          {"allocated_by", {0}},
          {"freed_by", Json::array()}};
}

Json frame(const char* name, int offset) {
  return {{"module", "/nowhere/app"},
          {"build_id", ""},
          {"offset", offset},
          {"name", name},
          {"file", ""},
          {"line", 0}};
}

// Numbered by their order.
Json finding(const char* text, Json suspect) {
  return {{"text", text},
          {"doubt", ""},
          {"source", "call"},
          {"certain", true},
          {"suspects", Json::array({std::move(suspect)})},
          {"found_in", {1}},
          {"work", {{{"text", "fill_table on the default stream"}, {"by", {2}}}}},
          {"frames", {frame("make_table()", 0x12d8), frame("main", 0x13e2), frame("go", 1)}}};
}

Json report(const Json& findings) {
  return {{"format", "custash guard report 2"},
          {"pid", 7},
          {"program", "./app"},
          {"time_us", 0},
          {"found", findings.size()},
          {"checked", std::to_string(findings.size()) + " found"},
          {"findings", findings}};
}

// As custash writes it: the format comes first.
std::string as_written(Json report) {
  report.erase("format");
  return "{\"format\":\"custash guard report 2\"," + report.dump().substr(1);
}

std::string page_of(const std::string& text) {
  bool complete = false;
  return findings_page("f", text, &complete);
}

std::string page(const Json& findings) {
  return page_of(as_written(report(findings)));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

bool has(const std::string& text, const std::string& part) {
  return count(text, part) > 0;
}

TEST_CASE("a guard report is known by its first bytes") {
  CHECK(is_guard_report(as_written(report(Json::array()))));
  CHECK_FALSE(is_guard_report("{\"format\":\"custash snapshot 1\""));
  try {
    (void)parse_snapshot("f", as_written(report(Json::array())));
    FAIL("it was taken for a snapshot");
  } catch (const BadSnapshot& bad) {
    CHECK(bad.what() == std::string("f: no snapshot: it is a guard report (custash report f)"));
  }
}

TEST_CASE("a page has each finding, its block and its call sites") {
  const std::string made = page(
      {finding("memory next to a block was overwritten", suspect("past_end", 3, "3 past A")),
       finding("a double free", suspect("second_free", 0, "second of B"))});
  for (const char* part : {"<h1>./app</h1>",
                           "Process 7: 2 found.",
                           "<h2>1. memory next to a block was overwritten</h2>",
                           "<h2>2. a double free</h2>",
                           "<h3>3 past A</h3>",
                           "<h3>second of B</h3>",
                           "<li>make_table() (app+0x12d8)</li>",
                           "<li>main (app+0x13e2)</li>",
                           "<summary>fill_table on the default stream</summary>",
                           "<li>go (app+0x1)</li>",
                           "1 × <a href=\"#2\">a double free</a>"})
    CHECK(has(made, part));
  CHECK(count(made, "<svg") == 1);  // where there is a place
  CHECK(has(made, "aria-label=\"3 bytes past the end\""));
  CHECK_FALSE(has(made, "freed by"));  // it was not
}

TEST_CASE("the sums lead to the first of each kind, most first") {
  const auto one = finding("rare", suspect("after_free", 0, "x"));
  const auto two = finding("often", suspect("after_free", 0, "x"));
  const std::string made = page({one, two, two});
  const auto often = made.find("2 × <a href=\"#2\">often</a>");
  CHECK(often < made.find("1 × <a href=\"#1\">rare</a>"));
}

TEST_CASE("the mark stands where the access was") {
  const auto mark = [](const char* kind, int distance) {
    const std::string made = page(Json::array({finding("x", suspect(kind, distance, "x"))}));
    const auto at = made.find("class=\"hit\" d=\"M");
    return at == std::string::npos ? -1 : std::stod(made.substr(at + 16));
  };
  const double begin = 120;
  const double end = 380;
  CHECK(mark("past_end", 1) > end);
  CHECK(mark("before_beginning", 1) < begin);
  CHECK(mark("part_free", 2000) == (begin + end) / 2);
  CHECK(mark("part_free", 9000) == end);
  CHECK(mark("after_free", 0) == -1);
  CHECK(mark("past_end", 0) == -1);  // not known
}

TEST_CASE("what names hold stays text") {
  const char* bad = "<script>alert(1)</script>&\x1b[2J";
  Json all = finding(bad, suspect("past_end", 1, bad));
  all["doubt"] = bad;
  for (Json& each : all["frames"])
    each["name"] = bad;
  all["work"][0]["text"] = bad;
  Json whole = report(Json::array({all}));
  whole["program"] = bad;
  const std::string made = page_of(as_written(whole));
  CHECK_FALSE(has(made, "<script"));
  CHECK_FALSE(has(made, "\x1b"));
  CHECK(count(made, "&lt;script>alert(1)&lt;/script>&amp;") == 9);
}

TEST_CASE("the file may have fewer findings than there were") {
  Json whole = report(Json::array({finding("x", suspect("after_free", 0, "x"))}));
  whole["found"] = 1200;
  whole["checked"] = "1,200 found; 7 allocations were guarded";
  CHECK(has(page_of(as_written(whole)),
            "1,200 found; 7 allocations were guarded. The file has the first 1."));
}

TEST_CASE("a report that is not whole is refused") {
  const Json good = report(Json::array({finding("x", suspect("past_end", 1, "x"))}));
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      (void)page_of(text);
    } catch (const BadSnapshot& bad) {
      return bad.what();
    }
    return "";
  };
  CHECK(complaint(as_written(good)).empty());
  CHECK(complaint(as_written(good).substr(0, 200)) == "f: no whole guard report");
  const Json flat = good.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (path == "/format" || path == "/findings/0/source") continue;  // compared only
    CAPTURE(path);
    Json other = flat;
    other[path] = value.is_string() ? Json(7) : Json("seven");
    CHECK(complaint(as_written(other.unflatten())) == "f: no whole guard report");
  }
}

}  // namespace
}  // namespace custash::snapshot
