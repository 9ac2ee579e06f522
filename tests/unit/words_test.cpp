// SPDX-License-Identifier: MIT
// Words that people write: sizes, and the name that a misspelt one is nearest to.
#include "allocator/base/words.hpp"

#include "tests/catch.hpp"

#include <string>

namespace custash {

TEST_CASE("words: sizes", "[words]") {
  const std::pair<const char*, Bytes> good[] = {
      {"0", 0},
      {"12884901888", 12884901888},
      {"7b", 7},
      {"3K", 3_KiB},
      {"3k", 3_KiB},
      {"3KB", 3_KiB},
      {"3KiB", 3_KiB},
      {"3kib", 3_KiB},
      {"100MB", 100_MiB},
      {"100Mi", 100_MiB},
      {"100MiB", 100_MiB},
      {"1.5G", 1536_MiB},
      {"1.5g", 1536_MiB},
      {"0.25kb", 256},
      {"2T", 2048_GiB},
      {"0.1G", 107374182},
      {"1.0000000000001M", 1_MiB},
      {"16777215T", 16777215ULL << 40},
      {"16777215.999999T", (16777215ULL << 40) + (999999ULL << 40) / 1000000},
      {"18446744073709551615", ~Bytes{0}},
  };
  for (const auto& [text, bytes] : good) {
    INFO(text);
    CHECK(parse_size(text) == bytes);
  }
  for (const char* text : {"",       "K",   "-1",   "+1",        " 1",
                           "1 ",     "1.",  "1.5",  "1.5b",      ".5G",
                           "1.5.5G", "1e9", "0x10", "1Gx",       "1KK",
                           "1P",     "1%",  "12x",  "16777216T", "18446744073709551616",
                           "1.5Gb/s"}) {
    INFO(text);
    CHECK_FALSE(parse_size(text).has_value());
  }
}

TEST_CASE("words: case does not matter", "[words]") {
  CHECK(same_word("MiB", "mib"));
  CHECK(same_word("", ""));
  CHECK_FALSE(same_word("mi", "mib"));
  CHECK_FALSE(same_word("[", "{"));  // as far apart as a letter's two cases
}

TEST_CASE("words: the nearest name", "[words]") {
  constexpr std::string_view kNames[] = {"run", "replay", "report", "stat", "completion"};
  const auto near = [&](std::string_view word) { return std::string(nearest(word, kNames)); };
  CHECK(near("rnu") == "run");
  CHECK(near("RUN") == "run");
  CHECK(near("stats") == "stat");
  CHECK(near("reprot") == "report");
  CHECK(near("completoin") == "completion");
  CHECK(near("completions") == "completion");
  CHECK(near("ls").empty());
  CHECK(near("train").empty());
  CHECK(near("").empty());
  CHECK(near(std::string(1000000, 'r')).empty());
}

}  // namespace custash
