// SPDX-License-Identifier: MIT
// Blocks with bytes of their own: kernels that write and read them, on a simulator that keeps
// contents.
#pragma once

#include "tests/unit/bed.hpp"

#include <cstring>
#include <string>

namespace custash {

inline sim::Options with_bytes(Bytes device_memory) {
  sim::Options options;
  options.data = true;
  options.device_memory = device_memory;
  return options;
}

// A kernel that writes (or reads) the block byte by byte.
inline sim::Kernel writes(Address at, Bytes bytes, int value) {
  return {.accesses = {{at, bytes, true}},
          .body = [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); }};
}

inline sim::Kernel reads(Address at, Bytes bytes, std::string* out) {
  return {.accesses = {{at, bytes, false}},
          .body = [=] { out->assign(reinterpret_cast<const char*>(at), bytes); }};
}

// Not compared by Catch, which would print megabytes.
inline bool is_all(const std::string& seen, Bytes bytes, int value) {
  return seen == std::string(bytes, static_cast<char>(value));
}

template <typename Answer>
bool says(const Answer& answer, const char* word) {
  return answer.text.find(word) != std::string::npos;
}

}  // namespace custash
