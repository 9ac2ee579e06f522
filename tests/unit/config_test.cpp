// SPDX-License-Identifier: MIT
// CUSTASH_CONF: every option is read, every mistake gets one clear line and changes nothing,
// and the table that people see is the table that the reader works from.
#include "allocator/base/config.hpp"

#include "tests/catch.hpp"

#include <sstream>

using custash::Backing;
using custash::FreeMode;
using custash::LogLevel;
using custash::option_rows;
using custash::OptionRow;
using custash::parse_config;

namespace {

// What the one line says between its beginning and its end, which are always the same.
std::string only_complaint(std::string_view text) {
  constexpr std::string_view kBegin = "custash: CUSTASH_CONF: ";
  constexpr std::string_view kEnd = "; ignored";
  const auto parsed = parse_config(text);
  REQUIRE(parsed.complaints.size() == 1);
  std::string line = parsed.complaints.front();
  REQUIRE((line.starts_with(kBegin) && line.ends_with(kEnd)));
  return line.substr(kBegin.size(), line.size() - kBegin.size() - kEnd.size());
}

std::vector<std::string> values_of(const OptionRow& row) {
  if (row.type == "percent") return {"0", "1000", "7%"};
  if (row.type == "count") return {"0", std::string(row.range.substr(row.range.find('-') + 1))};
  if (row.type == "bytes")
    return {"0", "123456789", "4K", "512M", "20G", "1T", "1.5g", "100MiB"};
  if (row.type == "limit")
    return {"0", "123456789", "512M", "20G", "80%", "100%", "1.5g", "2MiB"};
  if (row.type == "pinned") return {"true", "false", "512M", "20G"};
  if (row.type == "name") return {"", "job-7_a"};
  if (row.type == "guard") return {"off", "all", "1/1000", "1/1@7", "1M-64M", "4096-4096"};
  if (row.type == "seconds") return {"0", "86400", "10s"};
  if (row.type == "path") return {"", "/tmp/log:1"};
  std::vector<std::string> values;
  std::istringstream words{std::string(row.range)};
  for (std::string word; std::getline(words, word, '|');)
    values.push_back(word);
  return values;
}

}  // namespace

TEST_CASE("config: nothing said gives the defaults", "[config]") {
  for (const char* text : {"", " ", ",", " , ,"}) {
    const auto parsed = parse_config(text);
    CHECK(parsed.complaints.empty());
    CHECK(parsed.config.enabled);
    CHECK(parsed.config.backing == Backing::Auto);
    CHECK(parsed.config.free_mode == FreeMode::Auto);
    CHECK(parsed.config.single_stream);
    CHECK(parsed.config.run_ahead_percent == 10);
    CHECK(parsed.config.log == LogLevel::Off);
    CHECK(parsed.config.log_file.empty());
    CHECK_FALSE(parsed.config.summary);
    CHECK(parsed.config.pinned);
    CHECK(parsed.config.pinned_limit == 0);
    CHECK(parsed.config.pinned_decay == 60);
  }
}

TEST_CASE("config: sizes and times have units", "[config]") {
  CHECK(parse_config("pinned:3K").config.pinned_limit == 3072);
  CHECK(parse_config("pinned:20G").config.pinned_limit == 20ULL << 30);
  CHECK(parse_config("pinned:20Gi").config.pinned_limit == 20ULL << 30);
  CHECK(parse_config("pinned:7").config.pinned_limit == 7);
  CHECK(parse_config("pinned:7").config.pinned);
  CHECK_FALSE(parse_config("pinned:7,pinned:false").config.pinned);
  CHECK(parse_config("pinned:7,pinned:true").config.pinned_limit == 0);
  CHECK(parse_config("pinned_decay:5s").config.pinned_decay == 5);
  for (const char* wrong : {"pinned:",
                            "pinned:G",
                            "pinned:1.G",
                            "pinned:1.5",
                            "pinned:-1",
                            "pinned:1Gx",
                            "pinned:99999999T",
                            "pinned_decay:5m",
                            "pinned_decay:86401"}) {
    INFO(wrong);
    const auto parsed = parse_config(wrong);
    CHECK(parsed.complaints.size() == 1);
    CHECK(parsed.config.pinned);
    CHECK(parsed.config.pinned_limit == 0);
    CHECK(parsed.config.pinned_decay == 60);
  }
}

TEST_CASE("config: limits of all memory, and who shares one", "[config]") {
  CHECK_FALSE(parse_config("").config.limit_all.any());
  CHECK(parse_config("limit_all:3000m").config.limit_all.bytes == 3000ULL << 20);
  CHECK(parse_config("limit_all:20%").config.limit_all.percent == 20);
  CHECK_FALSE(parse_config("limit_all:20%").config.limit.any());
  CHECK(only_complaint("limit_all:1M") ==
        "limit_all:1M is less than 2 MiB, which holds nothing");
  CHECK(parse_config("limit_group:job-7_a").config.limit_group == "job-7_a");
  CHECK(only_complaint("limit_group:../x") ==
        "limit_group:../x is no name of at most 64 letters, digits, - and _");
}

TEST_CASE("config: a removed option has no effect, and one line names what to use instead",
          "[config]") {
  const auto parsed = parse_config("turns:30,handle_cache:4G,sleep_after:5");
  CHECK(parsed.complaints.empty());
  REQUIRE(parsed.notices.size() == 2);
  CHECK(parsed.notices.back().find("'handle_cache' was removed") != std::string::npos);
  CHECK(parsed.notices.front().find("'turns' was removed") != std::string::npos);
  CHECK(parsed.notices.front().find("yield_after") != std::string::npos);
  CHECK(parsed.given.size() == 1);
  CHECK(parsed.config.sleep_after == 5);
  CHECK(parse_config("sleep_after:5").notices.empty());
  CHECK(parse_config("turn:30").complaints.size() == 1);
}

TEST_CASE("config: where the contents of sleeping memory go", "[config]") {
  CHECK(parse_config("").config.sleep_memory == ~0ULL);
  CHECK(parse_config("sleep_memory:0").config.sleep_memory == 0);
  CHECK(parse_config("sleep_memory:2G").config.sleep_memory == 2ULL << 30);
  CHECK(parse_config("sleep_memory:2G,sleep_memory:all").config.sleep_memory == ~0ULL);
  CHECK(parse_config("sleep_memory:some").complaints.size() == 1);
  CHECK(parse_config("").config.sleep_dir.empty());
  CHECK(parse_config("sleep_dir:/a:b c").config.sleep_dir == "/a:b c");
}

TEST_CASE("config: every option is read", "[config]") {
  const auto parsed = parse_config(
      "enabled:false, backing:vmm ,free:strict,run_ahead:1000,log:debug,"
      "log_file:/tmp/a:b c.log,summary:1,");
  CHECK(parsed.complaints.empty());
  CHECK_FALSE(parsed.config.enabled);
  CHECK(parsed.config.backing == Backing::Vmm);
  CHECK(parsed.config.free_mode == FreeMode::Strict);
  CHECK_FALSE(parsed.config.single_stream);
  CHECK(parsed.config.run_ahead_percent == 1000);
  CHECK(parsed.config.log == LogLevel::Debug);
  CHECK(parsed.config.log_file == "/tmp/a:b c.log");
  CHECK(parsed.config.summary);
}

TEST_CASE("config: an unknown option is named", "[config]") {
  CHECK(only_complaint("x:1") == "unknown option 'x' (see custash run --help)");
  CHECK(only_complaint(":1") == "unknown option '' (see custash run --help)");
}

TEST_CASE("config: a bad value says which are good", "[config]") {
  CHECK(only_complaint("backing:foo") == "backing:foo is not one of auto|vmm|whole|driver");
  CHECK(only_complaint("backing:divers") ==
        "backing:divers is not one of auto|vmm|whole|driver; did you mean 'driver'?");
  CHECK(only_complaint("free:") == "free: is not one of auto|copies|never|strict|parameters");
  CHECK(only_complaint("summary:maybe") == "summary:maybe is not one of true|false");
  CHECK(only_complaint("summary") == "option 'summary' has no value (write summary:VALUE)");
  for (const char* bad : {"1001", "-1", "", "5x", "0x5", "1.5", "99999999999999999999", "+5"}) {
    CHECK(only_complaint(std::string("run_ahead:") + bad) ==
          std::string("run_ahead:") + bad + " is not a whole number in 0-1000");
  }
}

TEST_CASE("config: case does not matter, and American spelling is taken", "[config]") {
  const auto parsed = parse_config("Backing:VMM,log:INFO,neighbors:False");
  CHECK(parsed.complaints.empty());
  CHECK(parsed.config.backing == Backing::Vmm);
  CHECK(parsed.config.log == LogLevel::Info);
  CHECK(parsed.config.single_stream);
  CHECK_FALSE(parsed.config.neighbours);
}

TEST_CASE("config: a misspelt option gets a hint", "[config]") {
  CHECK(only_complaint("bakcing:vmm") == "unknown option 'bakcing'; did you mean 'backing'?");
  CHECK(only_complaint("history_deph:3").find("did you mean 'history_depth'?") !=
        std::string::npos);
  CHECK(only_complaint("neigbors:true").find("did you mean 'neighbours'?") !=
        std::string::npos);
  CHECK(only_complaint("summary=true") == "'summary=true': write a colon in place of '='");
}

TEST_CASE("config: a wrong separator is named", "[config]") {
  for (const char* text :
       {"summary:true;limit:50%", "summary:true ; limit:50%", "log_file:/a;limit:50%"})
    CHECK(only_complaint(text) ==
          "'" + std::string(text) + "': write a comma between options, not a semicolon");
  for (const char* text : {"summary:true limit:50%", "bad:1\nlimit:50%"})
    CHECK(only_complaint(text) ==
          "'" + std::string(text) + "': write a comma between options, not a blank");
  CHECK(parse_config("log_file:/my logs;2/log:1 log:2").complaints.empty());
}

TEST_CASE("config: a limit that lets nothing through is refused", "[config]") {
  for (const char* text : {"limit:0%", "limit:101%", "limit:%"}) {
    CHECK(only_complaint(text) ==
          std::string(text) +
              " is not a number of bytes (20000000, 512M, 1.5G) or a share (1% to 100%)");
  }
  CHECK(only_complaint("limit:1") == "limit:1 is less than 2 MiB, which holds nothing");
  CHECK(only_complaint("limit:2047K").find("less than 2 MiB") != std::string::npos);
  CHECK(parse_config("limit:2048K").config.limit.bytes == 2048 << 10);
}

TEST_CASE("config: of a limit in bytes and one in percent the last wins", "[config]") {
  CHECK(parse_config("limit:50%,limit:1.5G").config.limit.percent == 0);
  CHECK(parse_config("limit:50%,limit:1.5G").config.limit.bytes == 3ULL << 29);
  CHECK(parse_config("limit:1G,limit:50%").config.limit.bytes == 0);
  CHECK(parse_config("limit:1G,limit:50%,limit:0").config.limit.percent == 0);
}

TEST_CASE("config: what was taken is known, the last of each option", "[config]") {
  const auto given = parse_config("limit:1G,log:info,bad:1,limit:x,limit: 50% ").given;
  REQUIRE(given.size() == 2);
  CHECK(given[0] == std::pair<std::string_view, std::string>("log", "info"));
  CHECK(given[1] == std::pair<std::string_view, std::string>("limit", "50%"));
}

TEST_CASE("config: a mistake leaves everything else as asked", "[config]") {
  const auto parsed = parse_config("backing:foo,free:never,zzz,run_ahead:1001,log:info");
  CHECK(parsed.complaints.size() == 3);
  CHECK(parsed.config.backing == Backing::Auto);
  CHECK(parsed.config.free_mode == FreeMode::Never);
  CHECK(parsed.config.run_ahead_percent == 10);
  CHECK(parsed.config.log == LogLevel::Info);
}

TEST_CASE("config: which blocks are guarded", "[config]") {
  const auto guard = [](const char* text) { return parse_config(text).config.guard; };
  CHECK_FALSE(guard("").any());
  CHECK_FALSE(guard("guard:all,guard:off").any());
  CHECK(guard("guard:all").one_in == 1);
  CHECK(guard("guard:1/1000").one_in == 1000);
  CHECK(guard("guard:1/1000").seed == 0);
  CHECK(guard("guard:1/1000@7").one_in == 1000);
  CHECK(guard("guard:1/1000@7").seed == 7);
  CHECK(guard("guard:1M-64M").least == 1U << 20U);
  CHECK(guard("guard:1M-64M").most == 64U << 20U);
  CHECK(guard("guard:1M-64M,guard:all").most == ~0ULL);
  CHECK(guard("guard:1/1000").slack == 4096);
  CHECK(guard("guard:all").slack == 2U << 20U);
  CHECK_FALSE(guard("guard:all+fill,guard:all").fill);
  for (const char* const filled :
       {"guard:all+fill", "guard:1/9+fill", "guard:1/9@7+fill", "guard:1-2M+fill"})
    CHECK((guard(filled).any() && guard(filled).fill));
  for (const char* const wrong : {"guard:1/0",
                                  "guard:1/",
                                  "guard:2/3",
                                  "guard:1/x",
                                  "guard:1/1000@",
                                  "guard:1/1000@0",
                                  "guard:1/1000@x",
                                  "guard:64M-1M",
                                  "guard:-",
                                  "guard:7",
                                  "guard:1/-1",
                                  "guard:off+fill",
                                  "guard:+fill",
                                  "guard:all+full"})
    CHECK(parse_config(wrong).complaints.size() == 1);
}

TEST_CASE("config: each row of the table is true of the reader", "[config]") {
  REQUIRE_FALSE(option_rows().empty());
  for (const OptionRow& row : option_rows()) {
    INFO(row.name);
    CHECK_FALSE(row.help.empty());
    const std::string prefix = std::string(row.name) + ":";
    CHECK(parse_config(prefix + std::string(row.default_value)).complaints.empty());
    for (const std::string& value : values_of(row)) {
      CHECK(parse_config(prefix + value).complaints.empty());
    }
    if (row.type != "path") {
      CHECK(parse_config(prefix + "no such value").complaints.size() == 1);
    }
  }
}
