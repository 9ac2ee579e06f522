// SPDX-License-Identifier: MIT
// What the tests of the suite share. Tags say what a test needs; run.py leaves out what the
// machine lacks, by name:
//   [custash]    custash preloaded: what is about caching has no meaning bare
//   [bare]       the driver's own answers
//   [simulator]  the simulator with its race detector: what a GPU cannot judge
//   [two] [four] as many devices
//   [gpu]        figures that only a device has
#pragma once

#include "tests/catch.hpp"
#include "tests/harness/detector.hpp"
#include "tests/harness/ops.hpp"

#include <string>
#include <vector>

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;  // which version 2 does by itself
#endif

namespace custash::harness {

// No report of the race detector during its life, where there is one. It begins with a clean
// slate.
class NoRaces {
 public:
  NoRaces() {
    settle();
    detector::clear();
  }

  ~NoRaces() {
    settle();
    INFO(detector::text());
    CHECK(detector::reports() == 0);
    detector::clear();
  }

  NoRaces(const NoRaces&) = delete;
  NoRaces& operator=(const NoRaces&) = delete;

 private:
  static void settle() {
    for (int device = 0; device < device_count() && is_initialized(); ++device)
      synchronize(device);
  }
};

// A program that is wrong on purpose: what the detector is to say of it.
class ExpectRace {
 public:
  explicit ExpectRace(std::string kind) : kind_(std::move(kind)) {
    for (int device = 0; device < device_count() && is_initialized(); ++device)
      synchronize(device);
    detector::clear();
  }

  ~ExpectRace() {
    synchronize();
    INFO(detector::text());
    CHECK(detector::reports(kind_) >= 1);
    detector::clear();
  }

  ExpectRace(const ExpectRace&) = delete;
  ExpectRace& operator=(const ExpectRace&) = delete;

 private:
  std::string kind_;
};

inline std::vector<double> repeated(double value, std::int64_t n) {
  return std::vector<double>(static_cast<std::size_t>(n), value);
}

constexpr std::int64_t kMiBOfFloats = 256 * 1024;  // elements of float32

struct Finished {
  int status = -1;
  std::string output;
};

// Runs a role of harness_child in a process of its own, with the same driver and custash or
// not. `environment` as "NAME=VALUE" words in front.
Finished run_child(const std::string& role, const std::string& environment = "");

}  // namespace custash::harness
