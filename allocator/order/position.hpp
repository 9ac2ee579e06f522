// SPDX-License-Identifier: MIT
// Position: a place on the timeline of one context. Pure.
// decision 01
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace custash {

// Everything up to this submission of the context, counted from 1. Position{}: nothing.
struct Position {
  std::uint64_t count = 0;

  friend constexpr auto operator<=>(const Position&, const Position&) = default;

  [[nodiscard]] constexpr bool none() const { return count == 0; }

  // After every submission that there can be.
  static constexpr Position end() { return {std::numeric_limits<std::uint64_t>::max()}; }
};

}  // namespace custash
