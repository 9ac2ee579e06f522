// SPDX-License-Identifier: MIT
// Traces as text and as .xz: what is read, and what is refused with its line.
#include "tools/replay/trace.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

namespace custash::replay {
namespace {

// Empty when the text is a trace.
std::string complaint(const std::string& text) {
  try {
    (void)parse_trace("t", text);
  } catch (const BadTrace& bad) {
    return bad.what();
  }
  return {};
}

const std::string kGood =
    "# a comment\n"
    "10 0 a 1 1000 -\n"
    "20 0 a 2 3000 7\n"
    "25 1 h 3 64 -\n"
    "\n"
    "30 0 f 1 1000 -\n"
    "40 0 a 4 500 9\n"
    "50 0 f 2 3000 9\n"
    "60 1 g 3 64 -\n";

}  // namespace

TEST_CASE("a trace's events, slots, streams and peaks are read", "[trace]") {
  const Trace trace = parse_trace("t", kGood);
  REQUIRE(trace.events.size() == 7);
  CHECK(trace.peak == 4000);
  CHECK(trace.pinned_peak == 64);
  CHECK(trace.streams == 2);
  CHECK(trace.slots == 3);  // the fourth allocation takes the first's
  CHECK(trace.events[0].time == 10);
  CHECK(trace.events[0].stream == kNoStream);
  CHECK(trace.events[1].stream == 1);
  CHECK(trace.events[4].slot == trace.events[0].slot);
  CHECK(trace.events[5].kind == Kind::Free);
  CHECK(trace.events[5].stream == 2);  // freed on another stream than it was allocated on
  CHECK(trace.events[6].kind == Kind::PinnedFree);
}

TEST_CASE("an empty file is a trace without events", "[trace]") {
  CHECK(parse_trace("t", "").events.empty());
}

TEST_CASE("a line that makes no sense is refused with its number", "[trace]") {
  const std::pair<std::string, std::string> cases[] = {
      {"1 0 a 1 100", "not six fields"},
      {"1 0 a 1 100 - 7", "not six fields"},
      {"x 0 a 1 100 -", "t_ns"},
      {"-1 0 a 1 100 -", "t_ns"},
      {"1 x a 1 100 -", "thread"},
      {"1 0 b 1 100 -", "op"},
      {"1 0 af 1 100 -", "op"},
      {"1 0 a 1.5 100 -", "id"},
      {"1 0 a 1 100B -", "size"},
      {"1 0 a 1 99999999999999999999 -", "size"},
      {"1 0 a 1 99999999999999999 -", "larger than any device"},
      {"1 0 a 1 0 -", "no bytes"},
      {"1 0 a 1 100 x", "stream"},
      {"1 0 f 1 100 -", "not allocated"},
      {"1 0 a 8 50 -", "allocated already"},
      {"1 0 g 8 50 -", "pinned"},
      {"1 0 f 8 51 -", "another size"},
  };
  for (const auto& [line, why] : cases) {
    INFO(line);
    const std::string told = complaint("5 0 a 8 50 -\n# two\n" + line + "\n9 0 f 8 50 -\n");
    CHECK(told.rfind("t:3: ", 0) == 0);
    CHECK(told.find(why) != std::string::npos);
  }
}

TEST_CASE("half a line before zeros is what a killed recording leaves, else a fault",
          "[trace]") {
  const std::string zeros(100, '\0');
  CHECK(parse_trace("t", kGood + "70 0 a 9" + zeros).events.size() == 7);
  CHECK(parse_trace("t", kGood + zeros).events.size() == 7);
  CHECK(parse_trace("t", zeros).events.empty());
  CHECK(complaint(kGood + "70 0 a 9").rfind("t:10: ", 0) == 0);
}

TEST_CASE("zeros that text follows are damage, told with the line", "[trace]") {
  for (std::size_t at = 0; at + 1 < kGood.size(); at += 7) {
    INFO(at);
    std::string damaged = kGood;
    damaged[at] = '\0';
    const auto line =
        1 + std::count(kGood.begin(), kGood.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    CHECK(complaint(damaged + std::string(50, '\0')) ==
          "t:" + std::to_string(line) + ": zero bytes: the file is damaged");
  }
}

TEST_CASE("an .xz is unpacked, and is refused when it is cut short or damaged", "[trace]") {
  std::string text;
  for (int i = 1; i < 3000; ++i)
    text += std::to_string(i * 977) + " 0 a " + std::to_string(i) + " 4096 -\n";
  const std::string packed = pack(text);
  REQUIRE(packed.size() < text.size());
  CHECK(unpack("t", packed) == text);
  CHECK(unpack("t", text) == text);
  for (std::size_t length = 6; length < packed.size(); length += 211) {
    INFO(length);
    CHECK_THROWS_AS(unpack("t", packed.substr(0, length)), BadTrace);
  }
  // Every bit is covered by a checksum.
  for (std::size_t at = 6; at < packed.size(); at += 151) {
    INFO(at);
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    CHECK_THROWS_AS(unpack("t", damaged), BadTrace);
  }
}

TEST_CASE("a file that is not there is named", "[trace]") {
  CHECK_THROWS_WITH(read_trace("/nowhere/at.all"),
                    "/nowhere/at.all: No such file or directory");
}

TEST_CASE("no text makes the reader do worse than refuse it", "[trace]") {
  const char* const given = std::getenv("CUSTASH_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : std::strtoul(given, nullptr, 0);
  INFO("CUSTASH_SEED=" << seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  constexpr std::string_view kCommon = "0123456789 afhg-#\n\n  \t\r";
  std::size_t refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = kGood;
    for (unsigned n = random() % 4 + 1; n > 0; --n) {
      const std::size_t at = random() % text.size();
      const char c = kCommon[random() % kCommon.size()];
      if (random() % 3 == 0)
        text.erase(at, random() % 6);
      else if (random() % 2 == 0)
        text.insert(at, 1, c);
      else
        text[at] = c;
      if (text.empty()) text = " ";
    }
    const std::string told = complaint(text);
    if (told.empty()) continue;
    ++refused;
    REQUIRE(told.rfind("t:", 0) == 0);
  }
  CHECK(refused > 1000);
  CHECK(refused < 5000);
}

}  // namespace custash::replay
