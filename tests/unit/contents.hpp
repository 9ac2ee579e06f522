// SPDX-License-Identifier: MIT
// Blocks with bytes of their own: kernels that write and read them, on a simulator that keeps
// contents.
#pragma once

#include "allocator/sleep/sleep.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace custash {

inline sim::Options with_bytes(Bytes device_memory = 1_GiB) {
  sim::Options options;
  options.data = true;
  options.device_memory = device_memory;
  return options;
}

// Contents by their number, no two words of which are alike.
inline void fill(char* at, Bytes bytes, int number) {
  const auto word_at = [=](Bytes i) {
    return (i + 8) * 0x9e3779b97f4a7c15U ^ static_cast<std::uint64_t>(number);
  };
  auto* const words = reinterpret_cast<std::uint64_t*>(at);
  for (Bytes i = 0; i < bytes / 8; ++i)
    words[i] = word_at(8 * i);
  const std::uint64_t last = word_at(bytes / 8 * 8);
  std::memcpy(at + bytes / 8 * 8, &last, bytes % 8);
}

// A kernel that writes (or reads) the block byte by byte.
inline sim::Kernel writes(Address at, Bytes bytes, int number) {
  return {.accesses = {{at, bytes, true}},
          .body = [=] { fill(reinterpret_cast<char*>(at), bytes, number); }};
}

// One value throughout: sleep does not copy it.
inline sim::Kernel sets(Address at, Bytes bytes, int value) {
  return {.accesses = {{at, bytes, true}},
          .body = [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); }};
}

inline sim::Kernel reads(Address at, Bytes bytes, std::string* out) {
  return {.accesses = {{at, bytes, false}},
          .body = [=] { out->assign(reinterpret_cast<const char*>(at), bytes); }};
}

// Not compared by Catch, which would print megabytes.
inline bool has_contents(const std::string& seen, Bytes bytes, int number) {
  std::string wanted(bytes, '\0');
  fill(wanted.data(), bytes, number);
  return seen == wanted;
}

// What a kernel reads there now.
inline bool holds(Bed& bed, Address at, Bytes bytes, int number, CUstream stream = nullptr) {
  std::string seen;
  bed.launch(stream, reads(at, bytes, &seen));
  sim::run_all();
  return has_contents(seen, bytes, number);
}

inline bool is_all(const std::string& seen, Bytes bytes, int value) {
  return seen == std::string(bytes, static_cast<char>(value));
}

inline SleepAnswer fall_asleep(Sleep& sleep) {
  SleepAnswer answer = sleep.go({});
  INFO(answer.text);
  REQUIRE(answer.asleep);
  return answer;
}

template <typename Answer>
bool says(const Answer& answer, const std::string& words) {
  return answer.text.find(words) != std::string::npos;
}

}  // namespace custash
