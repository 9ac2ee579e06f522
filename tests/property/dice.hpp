// SPDX-License-Identifier: MIT
// Dice: draws from a seed, the same everywhere. One owner, no lock.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace custash::property {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  int pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(int of_hundred) { return pick(1, 100) <= of_hundred; }

  bool one_in(int n) { return pick(1, n) == 1; }

  template <typename Vector>
  auto& any(Vector& of) {
    return of[static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

// Draws for a program's setup: over all seeds every combination of options comes up.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : left_(seed * 0xd1342543de82ef95ULL) {
    left_ ^= left_ >> 29U;
  }

  std::uint64_t operator()(std::uint64_t of) {
    const std::uint64_t drawn = left_ % of;
    left_ /= of;
    return drawn;
  }

 private:
  std::uint64_t left_;
};

}  // namespace custash::property
