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
  std::size_t bytes = 0;
  auto* const ask = reinterpret_cast<decltype(&custash_memory_allocated)>(
      dlsym(RTLD_DEFAULT, "custash_memory_allocated"));
  EXPECT(ask != nullptr && ask(0, &bytes) == CUSTASH_SUCCESS);
  return bytes;
}
