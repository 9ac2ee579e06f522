// SPDX-License-Identifier: MIT
// Looks at processes that do not exist, for the tests of `custash top`.
#pragma once

#include "tools/command/live/look.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace custash::live {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30U;
inline constexpr std::int64_t kSecond = 1'000'000'000;

struct Made {
  std::int64_t pid = 1;
  int device = 0;
  const char* bus = "0000:01:00.0";
  std::int64_t in_use = kGiB, reserved = 2 * kGiB;
  std::int64_t allocations = 1;
  std::int64_t pages_moved = 0;
  const char* name = "train.py";
  std::optional<int> rank = std::nullopt;
  bool answered = true;
};

inline void add(Look& look, const Made& made) {
  Seen seen;
  seen.answered = made.answered;
  seen.page.pid = made.pid;
  seen.page.nonce = 7;
  seen.page.updated = look.at;
  std::strncpy(seen.page.name, "python3", sizeof seen.page.name - 1);
  seen.page.device_count = 1;
  DevicePart& part = seen.page.devices[0];
  std::strncpy(part.bus, made.bus, sizeof part.bus - 1);
  part.device = made.device;
  part.total_bytes = 8 * kGiB;
  part.allocated_bytes = made.in_use;
  part.reserved_bytes = made.reserved;
  part.allocations = made.allocations;
  part.pages_moved = made.pages_moved;
  look.seen.push_back(seen);
  look.programs[made.pid] = {made.name, made.rank};
}

inline Look look_at(std::int64_t at) {
  Look look;
  look.at = at;
  return look;
}

inline Look look_at(std::int64_t at, const Made& one) {
  Look look = look_at(at);
  add(look, one);
  return look;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace custash::live
