// SPDX-License-Identifier: MIT
// For programs that run preloaded: a line for each expectation that does not hold, and what
// custash has handed out of device 0.
#pragma once

#include "interpose/api/custash.h"

#include <cstddef>
#include <cstdio>

#include <dlfcn.h>

inline int failures = 0;

inline void expect(bool ok, const char* what) {
  if (ok) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__)

inline std::size_t allocated() {
  custash_counter_t bytes{};
  auto* const ask = reinterpret_cast<decltype(&custash_allocated_bytes)>(
      dlsym(RTLD_DEFAULT, "custash_allocated_bytes"));
  EXPECT(ask != nullptr && ask(0, &bytes) == CUSTASH_SUCCESS);
  return static_cast<std::size_t>(bytes.current);
}
