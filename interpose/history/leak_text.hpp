// SPDX-License-Identifier: MIT
// The allocated memory by call site, as text. It is the same at a program's exit, for a running
// process and for a file. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace custash {

class Allocator;

}  // namespace custash

namespace custash::leaks {

struct Site {
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  std::int64_t allocations = 0;
  std::int64_t allocated_bytes = 0;
  bool growing = false;
  std::string where;                // where_text()
  std::vector<std::string> frames;  // innermost first
};

// A sum of numbers from a file, which may be wrong: it stops at the largest number.
std::int64_t plus(std::int64_t a, std::int64_t b);

// "12.2 MiB", with three digits.
std::string size_text(std::int64_t bytes);

// "1 block", "2 blocks".
std::string count_text(std::int64_t count, const char* noun);

// `memory`: as observe::MemoryKind counts.
std::string where_text(std::size_t memory, int device);

// Device memory that no site has: it was allocated before history was switched on.
struct Older {
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
};

// The sites with the most bytes, `most` of them; those with the same text are one. `title`:
// "allocated now".
std::string text(const std::string& title,
                 const std::vector<Site>& sites,
                 std::size_t most,
                 const Older& older = {});

// ---- From this process's history: leaks.cpp.

// `title`: "still allocated at exit".
std::string text(const char* title);
// The same, and what is older than history.
std::string text_now(Allocator& core);

}  // namespace custash::leaks
