// SPDX-License-Identifier: MIT
// A checksum of bytes, to see whether they have changed by accident. Four lanes, so that it
// runs at the speed of memory. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace custash {

inline std::uint64_t checksum(const std::byte* at, Bytes bytes) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  constexpr std::size_t kLanes = 4;
  constexpr Bytes kWord = sizeof(std::uint64_t);
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  const auto mix = [](std::uint64_t sum, std::uint64_t word) {
    return std::rotl((sum ^ word) * kOdd, 29);
  };
  Bytes done = 0;
  for (; done + kLanes * kWord <= bytes; done += kLanes * kWord) {
    std::array<std::uint64_t, kLanes> words{};
    std::memcpy(words.data(), at + done, sizeof words);
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = mix(lanes[lane], words[lane]);
  }
  std::uint64_t sum = bytes;
  for (; done < bytes; ++done)
    sum = mix(sum, static_cast<std::uint64_t>(at[done]));
  for (const std::uint64_t lane : lanes)
    sum = mix(sum, lane);
  return sum;
}

}  // namespace custash
