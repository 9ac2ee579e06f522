// SPDX-License-Identifier: MIT
// Pins: blocks that other processes have open. Such a block is handed out again by nobody, and
// its pages are not free ones, so that they are neither moved nor given back. Guarded by the
// lock of its DeviceCache. Rank 5.
#pragma once

#include "allocator/pool.hpp"
#include "allocator/terms.hpp"

#include <unordered_map>

namespace custash {

class Pins {
 public:
  void begin(Address base) { ++pins_[base].count; }

  // The block, where this was the last use of it and it was freed meanwhile; else nothing.
  Found end(Address base);

  // At a free: true where the block stays with those who have it open.
  bool park(const Found& found);

  [[nodiscard]] bool has(Address base) const { return pins_.contains(base); }

  void clear() { pins_.clear(); }

 private:
  struct Pin {
    unsigned count = 0;
    Found parked;
  };

  std::unordered_map<Address, Pin> pins_;
};

}  // namespace custash
