// SPDX-License-Identifier: MIT
#include "interpose/check/guard_finding.hpp"

#include <algorithm>

namespace custash::guards {
namespace {

bool is_known(const std::vector<Suspect>& all, const Block& block) {
  return std::any_of(all.begin(), all.end(), [&](const Suspect& each) {
    return each.block.allocated == block.allocated;
  });
}

// Bytes between them; 0 where they touch.
Bytes gap(const Block& block, Address address, Bytes bytes) {
  if (address + bytes <= block.address) return block.address - (address + bytes);
  return address >= block.end() ? address - block.end() : 0;
}

Suspect beside(const Block& block, Address address) {
  if (block.freed != 0) return {block, Kind::AfterFree, 0};
  return {block, address < block.address ? Kind::BeforeBeginning : Kind::PastEnd, 0};
}

}  // namespace

Kind kind_at(const Near& near) {
  if (near.block.freed != 0) return Kind::AfterFree;
  return near.place == Place::PastEnd ? Kind::PastEnd : Kind::BeforeBeginning;
}

std::vector<Suspect> suspects_in_flight(const GuardBook& book) {
  std::vector<Suspect> out;
  const auto& all = book.work();
  std::uint64_t graph = 0;
  for (auto work = all.rbegin(); work != all.rend(); ++work) {
    if (work->graph && !work->over && graph == 0) graph = work->number;
    if (work->captured && graph == 0) continue;
    const std::uint64_t ran = work->captured ? graph : work->number;
    for (std::size_t i = 0; i < work->count && !work->over; ++i) {
      const auto near = book.nearest(work->addresses[i]);
      if (!near || near->block.memory == observe::MemoryKind::Pinned) continue;
      const bool is_late = near->block.freed != 0 && near->block.freed < ran;
      if (!is_known(out, near->block))
        out.push_back({near->block, is_late ? Kind::AfterFree : Kind::Outside});
    }
  }
  std::stable_partition(
      out.begin(), out.end(), [](const Suspect& each) { return each.kind == Kind::AfterFree; });
  return out;
}

std::vector<Suspect> suspects_at(const GuardBook& book, Address address, Bytes bytes) {
  const auto near = book.nearest(address, bytes);
  if (near && near->touches) return {beside(near->block, address)};
  std::vector<Suspect> out;
  const std::vector<Suspect> named = suspects_in_flight(book);
  const auto nearest =
      std::min_element(named.begin(), named.end(), [&](const Suspect& a, const Suspect& b) {
        return gap(a.block, address, bytes) < gap(b.block, address, bytes);
      });
  if (nearest != named.end()) out.push_back(beside(nearest->block, address));
  if (near && !is_known(out, near->block) &&
      (out.empty() ||
       gap(near->block, address, bytes) < gap(out.front().block, address, bytes)))
    out.push_back(beside(near->block, address));
  return out;
}

}  // namespace custash::guards
