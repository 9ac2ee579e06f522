// SPDX-License-Identifier: MIT
#include "pinned/host_limits.hpp"

#include "tests/catch.hpp"

#include <limits>

#include <sys/resource.h>

using namespace custash;

namespace {

constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

}  // namespace

TEST_CASE("a field of a text like /proc/meminfo's", "[unit][host_limits]") {
  constexpr std::string_view kText =
      "MemTotal:       24500000 kB\n"
      "NotMemAvailable: 1 kB\n"
      "MemAvailable:   23456789 kB\n"
      "Last: 7";
  CHECK(meminfo_field(kText, "MemAvailable:") == 23456789);
  CHECK(meminfo_field(kText, "MemTotal:") == 24500000);
  CHECK(meminfo_field(kText, "Last:") == 7);
  CHECK(meminfo_field(kText, "SwapFree:") == kUnknown);
  CHECK(meminfo_field("", "MemTotal:") == kUnknown);
  CHECK(meminfo_field("inactive_file 4096\nfile 1", "inactive_file") == 4096);
}

TEST_CASE("what is no number is no limit", "[unit][host_limits]") {
  CHECK(meminfo_field("memory: max\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory:\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: ", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: -5\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: 99999999999999999999999\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory:\t12x", "memory:") == 12);
}

TEST_CASE("the next line is not the field's", "[unit][host_limits]") {
  CHECK(meminfo_field("memory:\nother: 5\n", "memory:") == kUnknown);
}

TEST_CASE("this machine has memory, and says what bounds it", "[unit][host_limits]") {
  CHECK(available_host_memory() > 0);
  CHECK(available_host_memory() < 1ULL << 50);
  const std::string words = describe_host_limits();
  for (const char* key : {"system_available=", "control_group_available=", "memlock="})
    CHECK(words.find(key) != std::string::npos);
}

TEST_CASE("a limit of locked memory is told", "[unit][host_limits]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit low{65536, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &low) == 0);
  CHECK(describe_host_limits().find("memlock=65536") != std::string::npos);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
}
