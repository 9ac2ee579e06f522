// SPDX-License-Identifier: MIT
// AddressMap: a number for each address, without an allocation for each. Open addressing: an
// entry that is removed is filled by a later one. Address 0 is no key. The owner locks.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <vector>

namespace custash {

class AddressMap {
 public:
  static constexpr std::uint32_t kNone = ~0U;

  // An address that is not there yet.
  void add(Address address, std::uint32_t number) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    entries_[place_of(address)] = {address, number};
    ++size_;
  }

  // Its number, which it loses; kNone where it has none.
  std::uint32_t remove(Address address) {
    if (size_ == 0) return kNone;
    std::size_t hole = place_of(address);
    const std::uint32_t number = entries_[hole].number;
    if (entries_[hole].address == 0) return kNone;
    for (std::size_t at = next(hole); entries_[at].address != 0; at = next(at)) {
      // An entry whose place is behind the hole stays.
      const std::size_t home = home_of(entries_[at].address);
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
    --size_;
    return number;
  }

 private:
  struct Entry {
    Address address = 0;
    std::uint32_t number = 0;
  };

  [[nodiscard]] std::size_t mask() const { return entries_.size() - 1; }

  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask(); }

  [[nodiscard]] std::size_t home_of(Address address) const {
    return ((address * 0x9fb21c651e98df25ULL) >> 20U) & mask();
  }

  // The place where the address is, or would be.
  [[nodiscard]] std::size_t place_of(Address address) const {
    std::size_t at = home_of(address);
    while (entries_[at].address != 0 && entries_[at].address != address)
      at = next(at);
    return at;
  }

  void grow() {
    constexpr std::size_t kFirst = 64;
    std::vector<Entry> before(entries_.empty() ? kFirst : 2 * entries_.size());
    before.swap(entries_);
    for (const Entry& entry : before)
      if (entry.address != 0) entries_[place_of(entry.address)] = entry;
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace custash
