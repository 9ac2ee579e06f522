// SPDX-License-Identifier: MIT
// BlockState: who has a block, large or small. Pure.
#pragma once

#include <cstdint>

namespace custash {

enum class BlockState : std::uint8_t {
  Hole,     // addresses without memory (VMM)
  Stale,    // its pages were moved; work may still use them at these addresses
  Free,     // in the free index, merged with free neighbours
  InLimbo,  // freed, not merged, its positions not yet passed
  Used,     // a caller owns it
  Busy,     // held by a thread that calls the driver for it
};

}  // namespace custash
