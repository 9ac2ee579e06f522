// SPDX-License-Identifier: MIT
// Inventory: the memory of a device that custash holds at one moment, by segment and block, for
// statistics and snapshots. Plain values.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/base/units.hpp"

#include <cstdint>
#include <vector>

#include <cuda.h>

namespace custash {

enum class PieceState : std::uint8_t {
  Free,   // could be handed out
  Limbo,  // freed; work in flight may still use it
  Used,   // a caller owns it
};

struct Piece {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;  // Used only
  PieceState state = PieceState::Free;
  bool charged = false;  // to a program-created pool
};

// A range of addresses with memory behind it: one cuMemAlloc, or a run of mapped pages.
struct HeldSegment {
  Address base = 0;
  Bytes size = 0;
  StatPool pool = StatPool::Large;
  bool mapped = false;  // made of pages
  CUstream stream =
      nullptr;               // the one stream whose calls it serves; null: calls that name none
  std::vector<Bytes> pages;  // their sizes in order; empty if not mapped
  std::vector<Piece> pieces;  // without gaps
};

using Inventory = std::vector<HeldSegment>;

}  // namespace custash
