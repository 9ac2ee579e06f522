// SPDX-License-Identifier: MIT
// Pieces of 512 bytes to 1 MiB cut from slabs of 2 MiB, as the driver does for small requests.
// A slab goes back to the device with its last piece. Used with the world's lock held.
#pragma once

#include "tests/sim/entry.hpp"

namespace custash::sim {

using Slabs = std::vector<std::unique_ptr<Slab>>;

inline constexpr Bytes kGranule = 2_MiB;  // of device memory, whatever takes it
inline constexpr Bytes kSmall = 1_MiB;    // the largest piece
inline constexpr Bytes kPieceUnit = 512;

// Sets base and physical of the region; its size is given. False: out of memory.
bool take_piece(World& world, Slabs& slabs, int device, Region& region);
void drop_piece(World& world, Slabs& slabs, int device, const Region& region);

bool take_memory(World& world, int device, Bytes bytes);  // false: out of memory
void return_memory(World& world, int device, Bytes bytes);

}  // namespace custash::sim
