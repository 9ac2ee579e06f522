// SPDX-License-Identifier: MIT
// What the driver charges, in modelled nanoseconds of host time, and how long work takes on the
// device. Medians measured on one H200; the shape matters, not the figure. Pure.
#pragma once

#include "tests/sim/sim.hpp"
#include "tests/sim/symbols.hpp"

namespace custash::sim {

Nanoseconds base_cost(Symbol symbol);  // what an entry takes before what its size adds
Nanoseconds alloc_cost(Bytes bytes);
Nanoseconds free_cost(Bytes bytes);
inline constexpr Nanoseconds kSlabCost =
    25'000;  // when a slab for small requests is made or dropped
Nanoseconds host_alloc_cost(Bytes bytes);
Nanoseconds host_free_cost(Bytes bytes);
Nanoseconds create_cost(Bytes bytes);  // VMM: one handle
// VMM: one mapping, in a call that has `before` of them behind it: a call over many is cheaper
// than a call for each.
Nanoseconds access_cost(Bytes bytes, std::size_t before = 0);
Nanoseconds unmap_cost(Bytes bytes, std::size_t before = 0);
Nanoseconds release_cost(Bytes bytes);
inline constexpr Nanoseconds kMapCost = 700;
// Inside a device, between it and pinned memory, or pageable memory, which the driver stages.
enum class CopyPath { Device, Bus, Staged };
Nanoseconds copy_duration(Bytes bytes, CopyPath path);
Nanoseconds fill_duration(Bytes bytes);

}  // namespace custash::sim
