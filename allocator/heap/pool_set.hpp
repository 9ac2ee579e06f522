// SPDX-License-Identifier: MIT
// PoolSet: which pools of a context may have something free, or in limbo, by their numbers. A
// pool enters with the first such block, and leaves when a search has found it empty. So a
// search does not look at the pools of thousands of streams. Guarded by the cache lock. Pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace custash {

class PoolSet {
 public:
  // Room for one more pool.
  void expect(std::size_t number) {
    if (number / kBits >= words_.size()) words_.resize(number / kBits + 1);
  }

  void add(std::size_t number) { words_[number / kBits] |= bit(number); }

  void remove(std::size_t number) { words_[number / kBits] &= ~bit(number); }

  // The first from `number` on; none() where there is none.
  [[nodiscard]] std::size_t next(std::size_t number) const {
    for (std::size_t at = number / kBits; at < words_.size(); ++at) {
      const std::uint64_t from =
          at == number / kBits ? ~std::uint64_t{0} << number % kBits : ~std::uint64_t{0};
      if (const std::uint64_t left = words_[at] & from; left != 0)
        return at * kBits + static_cast<std::size_t>(std::countr_zero(left));
    }
    return none();
  }

  static constexpr std::size_t none() { return ~std::size_t{0}; }

 private:
  static constexpr std::size_t kBits = 64;

  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % kBits; }

  std::vector<std::uint64_t> words_;
};

// A pool's membership, for what puts blocks into it. Without a set it notes nothing.
struct PoolMember {
  PoolSet* set = nullptr;
  std::size_t number = 0;

  void note() const {
    if (set != nullptr) set->add(number);
  }
};

}  // namespace custash
