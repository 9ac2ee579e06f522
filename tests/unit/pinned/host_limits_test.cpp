// SPDX-License-Identifier: MIT
#include "pinned/host_limits.hpp"

#include "tests/catch.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <unistd.h>

using namespace custash;

namespace {

constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

}  // namespace

TEST_CASE("a field of a text like /proc/meminfo's", "[host_limits]") {
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

TEST_CASE("what is no number is no limit", "[host_limits]") {
  CHECK(meminfo_field("memory: max\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory:\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: ", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: -5\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory: 99999999999999999999999\n", "memory:") == kUnknown);
  CHECK(meminfo_field("memory:\t12x", "memory:") == 12);
}

TEST_CASE("the next line is not the field's", "[host_limits]") {
  CHECK(meminfo_field("memory:\nother: 5\n", "memory:") == kUnknown);
}

TEST_CASE("this machine has memory, and says what bounds it", "[host_limits]") {
  CHECK(available_host_memory() > 0);
  CHECK(available_host_memory() < 1ULL << 50);
  const std::string words = describe_host_limits();
  for (const char* key : {"system_available=", "control_group_available="})
    CHECK(words.find(key) != std::string::npos);
}

TEST_CASE("a group above the process's own may leave less room", "[host_limits]") {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("groups." + std::to_string(getpid()));
  const auto write = [&](const char* folder, const char* file, const char* text) {
    std::filesystem::create_directories(root / folder);
    std::ofstream(root / folder / file) << text;
  };
  write("job/step/task", "memory.max", "max\n");
  write("job", "memory.max", "1000\n");
  write("job", "memory.current", "700\n");
  write("job", "memory.stat", "inactive_file 100\n");
  write("memory/old/leaf", "memory.limit_in_bytes", "9000\n");
  write("memory/old/leaf", "memory.usage_in_bytes", "10\n");
  write("memory/old", "memory.limit_in_bytes", "500\n");
  write("memory/old", "memory.usage_in_bytes", "200\n");
  CHECK(group_room("0::/job/step/task\n", root) == 400);
  CHECK(group_room("0::/job\n", root) == 400);
  CHECK(group_room("4:memory:/old/leaf\n0::/elsewhere\n", root) == 300);
  CHECK(group_room("0::/\n", root) == kUnknown);
  CHECK(group_room("", root) == kUnknown);
  write("", "memory.max", "200\n");
  write("", "memory.current", "50\n");
  CHECK(group_room("0::/another/host's\n", root) == 150);
  std::filesystem::remove_all(root);
}
