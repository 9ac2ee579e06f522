// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
#include "tests/unit/live/looks.hpp"
#include "tools/command/live/look.hpp"

#include <set>
#include <sstream>
#include <string>

using namespace custash::live;

TEST_CASE("a process has its labels in each of its metrics") {
  Look look = look_at(kSecond, {.pid = 42, .device = 1, .in_use = 5, .rank = 3});
  look.seen[0].page.devices[0].ooms = 2;
  const std::string text = metrics_of(look, "node7");
  CHECK(has(
      text,
      "custash_process_allocated_bytes{host=\"node7\",pid=\"42\",program=\"train.py\",rank=\"3\",device=\"1\"} 5\n"));
  CHECK(has(text, "# TYPE custash_process_ooms_total counter\n"));
  CHECK(has(text, ",device=\"1\"} 2\n"));
  CHECK(has(text, "# TYPE custash_process_allocated_bytes gauge\n"));
  CHECK(has(text, "custash_processes{host=\"node7\"} 1\n"));
  CHECK(has(
      text,
      "custash_process_answered{host=\"node7\",pid=\"42\",program=\"train.py\",rank=\"3\"} 1\n"));
  CHECK_FALSE(has(text, "custash_device_others_bytes{"));
}

TEST_CASE("a GPU has OpenTelemetry's metrics where NVML tells its UUID") {
  Look look = look_at(kSecond);
  look.devices.push_back({0, std::nullopt, {80, 50}, "GPU-1-2"});
  look.devices.push_back({1, std::nullopt, {80, 50}, ""});
  const std::string text = metrics_of(look, "h");
  CHECK(has(text, "hw_gpu_memory_limit_bytes{host=\"h\",hw_id=\"GPU-1-2\"} 80\n"));
  CHECK(has(text, "hw_gpu_memory_usage_bytes{host=\"h\",hw_id=\"GPU-1-2\"} 50\n"));
  CHECK_FALSE(has(text, "hw_id=\"\""));
}

TEST_CASE(
    "every metric has one help and one type before its samples, and counters end in _total") {
  Look look = look_at(kSecond);
  add(look, {.pid = 1});
  add(look, {.pid = 2, .bus = "0000:02:00.0"});
  std::istringstream lines(metrics_of(look, "h"));
  std::set<std::string> known;
  std::string now;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("# HELP ")) {
      now = line.substr(7, line.find(' ', 7) - 7);
      CHECK(known.insert(now).second);
      REQUIRE(std::getline(lines, line));
      const bool counts = now.ends_with("_total");
      CHECK(line == "# TYPE " + now + (counts ? " counter" : " gauge"));
    } else {
      CHECK(line.starts_with(now + "{"));
    }
  }
  CHECK(known.size() > 15);
}

TEST_CASE("a label holds any name of a program") {
  CHECK(label_text("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(label_text("x\ny") == "\"x\\\\x0ay\"");
  CHECK(label_text("größe") == "\"größe\"");
  CHECK(label_text("a\xff\xc3") == "\"a\\\\xff\\\\xc3\"");
  CHECK(label_text("\xc0\xaf") == "\"\\\\xc0\\\\xaf\"");
  CHECK(label_text("\xf0\x9f\x98\x80") == "\"\xf0\x9f\x98\x80\"");
  CHECK(label_text("") == "\"\"");
}
