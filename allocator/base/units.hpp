// SPDX-License-Identifier: MIT
// Sizes and addresses: the arithmetic every other file uses. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace custash {

using Bytes = std::uint64_t;
using Address = std::uint64_t;  // a device address, as CUdeviceptr holds it
using Nanoseconds = std::uint64_t;

// A time that does not come.
inline constexpr Nanoseconds kNever = ~Nanoseconds{0};

inline constexpr Bytes operator""_KiB(unsigned long long n) {
  return n << 10;
}

inline constexpr Bytes operator""_MiB(unsigned long long n) {
  return n << 20;
}

inline constexpr Bytes operator""_GiB(unsigned long long n) {
  return n << 30;
}

constexpr Bytes align_up(Bytes n, Bytes to) {
  return (n + to - 1) / to * to;
}

constexpr Bytes align_down(Bytes n, Bytes to) {
  return n / to * to;
}

}  // namespace custash
