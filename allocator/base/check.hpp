// SPDX-License-Identifier: MIT
// CUSTASH_ASSERT: a condition that holds wherever custash changes its state. A checking build
// (Meson option `checks`) prints the condition that fails and aborts. The product neither
// evaluates the condition nor contains its text.
#pragma once

#if CUSTASH_CHECKS

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace custash {

// Without the streams of the C library: the state is corrupt, and locks may be held.
[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* condition,
                                                                const char* file,
                                                                int line) {
  dprintf(STDERR_FILENO, "custash: %s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace custash

#define CUSTASH_ASSERT(...) \
  ((__VA_ARGS__) ? (void)0 : ::custash::check_failed(#__VA_ARGS__, __FILE__, __LINE__))

#else

// In sizeof: not evaluated, but a variable that only an assertion uses counts as used.
#define CUSTASH_ASSERT(...) static_cast<void>(sizeof((__VA_ARGS__) ? 1 : 0))

#endif
