// SPDX-License-Identifier: MIT
#include "tests/sim/slab.hpp"

#include "tests/sim/machine.hpp"

#include <algorithm>
#include <cstring>

namespace custash::sim {
namespace {

// An offset in the slab, or ~0.
Bytes take_hole(const World& w, Slab& slab, Bytes bytes) {
  if (w.options.reuse == AddressReuse::Never) {
    if (slab.bump + bytes > kGranule) return ~Bytes{0};
    slab.bump += bytes;
    return slab.bump - bytes;
  }
  auto hole = slab.holes.find(slab.last_freed);
  if (hole == slab.holes.end() || hole->second < bytes)
    hole = std::find_if(
        slab.holes.begin(), slab.holes.end(), [&](const auto& h) { return h.second >= bytes; });
  if (hole == slab.holes.end()) return ~Bytes{0};
  const Bytes offset = hole->first;
  const Bytes left = hole->second - bytes;
  slab.holes.erase(hole);
  if (left > 0) slab.holes[offset + bytes] = left;
  return offset;
}

void add_hole(Slab& slab, Bytes offset, Bytes bytes) {
  const auto next = slab.holes.lower_bound(offset);
  if (next != slab.holes.end() && next->first == offset + bytes) {
    bytes += next->second;
    slab.holes.erase(next);
  }
  const auto after = slab.holes.lower_bound(offset);
  if (after != slab.holes.begin() &&
      std::prev(after)->first + std::prev(after)->second == offset)
    std::prev(after)->second += bytes;
  else
    slab.holes[offset] = bytes;
  slab.last_freed = offset;
}

Slab* make_slab(World& w, Slabs& slabs, int device) {
  if (!take_memory(w, device, kGranule)) return nullptr;
  auto slab = std::make_unique<Slab>();
  slab->base = w.space.reserve(kGranule, kGranule);
  slab->physical = w.space.make_physical(kGranule);
  if (slab->base == 0 || !w.space.map(slab->base, kGranule, slab->physical)) {
    return_memory(w, device, kGranule);
    return nullptr;
  }
  slab->holes[0] = kGranule;
  slabs.push_back(std::move(slab));
  w.now += kSlabCost;
  return slabs.back().get();
}

}  // namespace

bool take_memory(World& w, int device, Bytes bytes) {
  MachineLock machine(w);
  Bytes& used = w.devices[static_cast<std::size_t>(device)].used;
  const Bytes all = used + machine.used_by_others(device);
  if (bytes > w.options.device_memory || all > w.options.device_memory - bytes) return false;
  used += bytes;
  machine.publish(device);
  return true;
}

void return_memory(World& w, int device, Bytes bytes) {
  MachineLock machine(w);
  Bytes& used = w.devices[static_cast<std::size_t>(device)].used;
  used -= bytes;
  machine.publish(device);
}

bool take_piece(World& w, Slabs& slabs, int device, Region& region) {
  Slab* from = nullptr;
  Bytes offset = ~Bytes{0};
  for (const auto& slab : slabs) {
    from = slab.get();
    offset = take_hole(w, *from, region.size);
    if (offset != ~Bytes{0}) break;
  }
  if (offset == ~Bytes{0}) {
    from = make_slab(w, slabs, device);
    if (from == nullptr) return false;
    offset = take_hole(w, *from, region.size);
  }
  ++from->live;
  region.base = from->base + offset;
  region.physical = from->physical + offset;
  if (w.space.data()) std::memset(reinterpret_cast<void*>(region.base), 0, region.size);
  return true;
}

void drop_piece(World& w, Slabs& slabs, int device, const Region& region) {
  const auto it = std::find_if(slabs.begin(), slabs.end(), [&](const auto& slab) {
    return region.base >= slab->base && region.base < slab->base + kGranule;
  });
  if (it == slabs.end()) return;
  Slab& slab = **it;
  if (w.options.reuse == AddressReuse::Lifo)
    add_hole(slab, region.base - slab.base, region.size);
  if (--slab.live > 0) return;
  w.now += kSlabCost;
  w.space.unmap(slab.base, kGranule);
  w.space.drop_physical(slab.physical, kGranule);
  w.space.give_back(slab.base, kGranule);
  return_memory(w, device, kGranule);
  slabs.erase(it);
}

}  // namespace custash::sim
