// SPDX-License-Identifier: MIT
// The closing line of the checkers: what they have found, and what they could check. Pure.
#pragma once

#include "interpose/history/ledger.hpp"

#include <string>

namespace custash::guards {

struct Checked {
  ledger::Checks sums{};
  bool memory = false;  // --check-memory, or option guard
  bool streams = false;
  std::string unchecked;  // why allocations have no guards; empty: no room
  std::uint64_t suppressed = 0;

  // False: nothing that was requested was checked.
  [[nodiscard]] bool any() const { return memory ? sums.guarded != 0 : sums.uses != 0; }
};

// "nothing found; 3,810 of 5,000 allocations were guarded (no room for 1,190)"
std::string text_of(const Checked& checked);

}  // namespace custash::guards
