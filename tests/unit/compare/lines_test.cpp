// SPDX-License-Identifier: MIT
#include "tools/command/compare/lines.hpp"

#include "tests/catch.hpp"
#include "tools/command/compare/capture.hpp"

#include <algorithm>
#include <string>

#include <unistd.h>

namespace {

using namespace custash::compare;

Capture holding(const std::string& text) {
  Capture capture;
  REQUIRE(write(capture.file(), text.data(), text.size()) == std::ssize(text));
  return capture;
}

std::string difference(const std::string& a,
                       const std::string& b,
                       const Patterns& ignored = {}) {
  const auto found = first_difference(holding(a).file(), holding(b).file(), ignored);
  if (!found) return "same";
  std::string text = std::to_string(found->line) + ":" + found->before + "/" + found->after;
  std::replace(text.begin(), text.end(), '\n', '$');
  return text;
}

}  // namespace

TEST_CASE("output is the same to the last byte, or not") {
  CHECK(difference("", "") == "same");
  CHECK(difference("a\nb\n", "a\nb\n") == "same");
  CHECK(difference("a\nb\n", "a\nc\n") == "2:b$/c$");
  CHECK(difference("a\n", "a") == "1:a$/a");
  CHECK(difference("a\n", "a\nmore\n") == "2:/more$");
  CHECK(difference("a\nmore\n", "a\n") == "2:more$/");
  const std::string with_null("a\0b", 3);
  CHECK(difference(with_null, with_null) == "same");
  CHECK(difference(with_null, std::string("a\0c", 3)).substr(0, 2) == "1:");
}

TEST_CASE("lines that match are left out, wherever they stand") {
  const Pattern time("--ignore", "^time: [0-9]+");
  const Pattern pid("--ignore", "pid");
  CHECK(difference("time: 1\na\n", "a\ntime: 2\n", {&time}) == "same");
  CHECK(difference("a pid 1\ntime: 1\nb\n", "b\n", {&time, &pid}) == "same");
  CHECK(difference("time: 1\na\n", "time: 2\nb\n", {&time}) == "2:a$/b$");
  CHECK(difference("time: x\n", "time: y\n", {&time}) == "1:time: x$/time: y$");
}

TEST_CASE("output without line ends is compared in pieces") {
  std::string a(3U << 20U, 'x');
  std::string b = a;
  CHECK(difference(a, b) == "same");
  b.back() = 'y';
  CHECK(difference(a, b) != "same");
}

TEST_CASE("the last match of a file counts") {
  const Capture file = holding("step 1: 20 ms\nstep 2: 10 ms, 15 ms\nend\n");
  CHECK(last_match(file.file(), Pattern("--metric", "([0-9]+) ms")) == "15");
  CHECK(last_match(file.file(), Pattern("--metric", "[0-9]+ ms")) == "15 ms");
  CHECK(last_match(file.file(), Pattern("--metric", "^step ([0-9])")) == "2");
  CHECK_FALSE(last_match(file.file(), Pattern("--metric", "seconds")).has_value());
  CHECK(last_match(holding("").file(), Pattern("--metric", "x*")) == std::nullopt);
  CHECK(last_match(holding("a\n").file(), Pattern("--metric", "x*")) == "");
}

TEST_CASE("a wrong expression is told with its option") {
  CHECK_THROWS_WITH(Pattern("--ignore", "("), "--ignore: (: Unmatched ( or \\(");
}

TEST_CASE("the tail begins with a whole line") {
  const Capture file = holding("first\nsecond\nthird\n");
  CHECK(file.tail(100) == "first\nsecond\nthird\n");
  CHECK(file.tail(10) == "third\n");
  CHECK(holding("").tail(10).empty());
}
