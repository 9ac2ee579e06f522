// SPDX-License-Identifier: MIT
// Short programs with pinned memory, written as text. Pure.
#pragma once

#include "tests/property/pinned_program.hpp"

#include <span>
#include <string_view>

namespace custash::property {

struct PinScenario {
  std::string_view name;
  std::string_view script;
};

std::span<const PinScenario> pinned_scenarios();

// One command a semicolon; each ends with the numbers that it has:
//   ctx C (commands after it are in context C) | newctx C | endctx | stream S | bstream S |
//   unstream S | alloc H SIZE | falloc H SIZE FLAGS | free H | release H | name H S | write H |
//   read H | in H S | out H S | kernel S | rkernel H S | wkernel H S | need S FLAG | set S FLAG
//   | record E S | wait E S | sync S | csync | empty | begin S (relaxed) | gbegin S (global) |
//   end S G | launch G S | ungraph G | idle SECONDS | run N
// Throws std::runtime_error for what it cannot read.
PinProgram parse_pinned(std::string_view script);

}  // namespace custash::property
