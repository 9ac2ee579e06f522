// SPDX-License-Identifier: MIT
// The edges of the host's ranges, held against a plain table of bytes.
#include "interpose/hooks/host_ranges.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>

using namespace custash;

namespace {

constexpr std::size_t kPlaces = 200;

const void* place(std::size_t i) {
  constexpr Address kFirst = 0x7f0000000000;
  return reinterpret_cast<const void*>(kFirst + i);
}

bool finds(std::size_t i) {
  const void* const word = place(i);
  host_ranges::Reader reader;
  const bool found = reader.finds(reinterpret_cast<const unsigned char*>(&word), 1);
  REQUIRE_FALSE(reader.changed());
  return found;
}

}  // namespace

TEST_CASE("ranges come, go and push out what they meet") {
  std::array<std::size_t, kPlaces> owner{};  // 1 + the first place of its range; 0: none
  std::mt19937 dice(1);
  const auto upto = [&](std::size_t most) { return dice() % most; };
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t at = upto(kPlaces);
    if (upto(3) == 0) {
      Bytes size = 0;
      const bool there = owner[at] == at + 1;
      REQUIRE(host_ranges::remove(place(at), &size) == there);
      if (!there) continue;
      REQUIRE(static_cast<std::size_t>(std::count(owner.begin(), owner.end(), at + 1)) == size);
      std::replace(owner.begin(), owner.end(), at + 1, std::size_t{0});
    } else {
      const std::size_t size = std::min(1 + upto(40), kPlaces - at);
      host_ranges::add(place(at), size);
      for (std::size_t i = at; i < at + size; ++i) {
        if (const std::size_t met = owner[i]; met != 0)
          std::replace(owner.begin(), owner.end(), met, std::size_t{0});
      }
      std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(at), size, at + 1);
    }
    const std::size_t asked = upto(kPlaces);
    REQUIRE(finds(asked) == (owner[asked] != 0));
  }
  for (std::size_t i = 0; i < kPlaces; ++i)
    REQUIRE(finds(i) == (owner[i] != 0));
  for (std::size_t i = 0; i < kPlaces; ++i) {
    Bytes size = 0;
    host_ranges::remove(place(i), &size);
  }
  REQUIRE(host_ranges::none());
}

TEST_CASE("a look that a change met says so") {
  host_ranges::add(place(5000), 10);  // its edges move with each change before it
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Bytes size = 0;
    for (int round = 0; round < 10'000; ++round) {
      for (std::size_t i = 1; i < 30; ++i)
        host_ranges::add(place(100 * i), 10);
      for (std::size_t i = 1; i < 30; ++i)
        host_ranges::remove(place(100 * i), &size);
    }
    done = true;
  });
  const void* const words[] = {place(5005), place(5015)};
  bool wrong = false;
  while (!done) {
    host_ranges::Reader reader;
    const bool in = reader.finds(reinterpret_cast<const unsigned char*>(&words[0]), 1);
    const bool out = reader.finds(reinterpret_cast<const unsigned char*>(&words[1]), 1);
    wrong |= !reader.changed() && (!in || out);
  }
  writer.join();
  CHECK_FALSE(wrong);
  Bytes size = 0;
  REQUIRE(host_ranges::remove(place(5000), &size));
  REQUIRE(size == 10);
}
