// SPDX-License-Identifier: MIT
// What is computed of single numbers: operations and random numbers, on host and device.
#pragma once

#include "tests/harness/dtype.hpp"

#include <cstdint>

namespace custash::harness {

enum class Unary : int { Copy, Relu };
enum class Binary : int { Add, Sub, Mul, Div, Max, ReluGrad };  // ReluGrad: a > 0 ? b : 0

template <typename T>
HARNESS_BOTH T apply(Unary op, T a) {
  return op == Unary::Relu && !(a > 0) ? T{0} : a;
}

template <typename T>
HARNESS_BOTH T apply(Binary op, T a, T b) {
  switch (op) {
    case Binary::Add:
      return a + b;
    case Binary::Sub:
      return a - b;
    case Binary::Mul:
      return a * b;
    case Binary::Div:
      return b == T{0} && T(0.5) == T{0} ? T{0} : a / b;  // integers: 0
    case Binary::Max:
      return a > b ? a : b;
    default:
      return a > 0 ? b : T{0};
  }
}

// splitmix64 of a counter: the same numbers whoever makes them, in whatever order.
HARNESS_BOTH inline double uniform(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

}  // namespace custash::harness
