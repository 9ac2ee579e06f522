// SPDX-License-Identifier: MIT
// Makes a failing program as small as can be found in some seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace custash::property {

// `fails(candidate)`: it still does what is looked for.
template <typename Program, typename Fails>
Program shrunk(const Program& program, Fails fails) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  Program best = program;
  for (std::size_t piece = std::max<std::size_t>(1, best.commands.size() / 2);;) {
    bool smaller = false;
    for (std::size_t at = 0; at < best.commands.size();) {
      if (std::chrono::steady_clock::now() > deadline) return best;
      Program candidate = best;
      const auto from = candidate.commands.begin() + static_cast<std::ptrdiff_t>(at);
      const auto count = std::min(piece, candidate.commands.size() - at);
      candidate.commands.erase(from, from + static_cast<std::ptrdiff_t>(count));
      if (fails(candidate)) {
        best = std::move(candidate);
        smaller = true;
      } else {
        at += piece;
      }
    }
    if (piece == 1 && !smaller) return best;
    piece = std::max<std::size_t>(1, piece / 2);
  }
}

}  // namespace custash::property
