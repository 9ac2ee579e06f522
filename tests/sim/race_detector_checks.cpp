// SPDX-License-Identifier: MIT
// The checks: each access against the lifetime of its allocation, and against the earlier
// accesses to the same bytes.
#include "tests/sim/race_detector.hpp"

#include <algorithm>

namespace custash::sim {

void RaceDetector::access(NodeIndex node, const Touch& touch) {
  Address at = touch.address;
  const Address end = touch.address + touch.bytes;
  while (at < end) {
    Touch part = touch;
    part.address = at;
    part.physical += at - touch.address;
    AllocationIndex index = 0;
    Address part_end = end;
    auto next = by_address_.upper_bound(at);
    if (next != by_address_.end()) part_end = std::min(part_end, next->first);
    if (next != by_address_.begin()) {
      const auto candidate = std::prev(next)->second;
      const Allocation& allocation = allocations_[candidate - 1];
      const Address allocation_end = allocation.address + allocation.bytes;
      if (at < allocation_end) {
        // Pinned memory that went back to the system: its bytes are another block of the
        // heap's.
        const bool gone = allocation.freed && touch.memory == Memory::Pageable;
        if (!gone) index = candidate;
        part_end = std::min(part_end, allocation_end);
      }
    }
    part.bytes = part_end - at;
    access_under(node, part, index);
    at = part_end;
  }
}

void RaceDetector::access_under(NodeIndex node,
                                const Touch& touch,
                                AllocationIndex allocation) {
  const Use use{node, allocation, touch.write};
  if (nodes_[node].name == kOfAllocator) {  // it keeps off what callers have
    if (may_save_) return check_saving(use, touch);
    if (allocation != 0 && !allocations_[allocation - 1].freed)
      report(Report::NotAllocated,
             nodes_[node].step,
             touch.address,
             touch.bytes,
             "the allocator itself touches a caller's bytes\n" + describe(use));
    return;
  }
  if (allocation != 0) {
    check_lifetime(use, touch);
  } else if (touch.memory == Memory::Device || touch.memory == Memory::Unmapped) {
    report(Report::NotAllocated,
           nodes_[node].step,
           touch.address,
           touch.bytes,
           "access to bytes that no allocation covers\n" + describe(use));
  }
  if (touch.memory == Memory::Unmapped) return;  // no bytes to be in order about

  const std::uint64_t end = touch.physical + touch.bytes;
  split(end);
  auto at = split(touch.physical);
  std::uint64_t position = touch.physical;
  while (position < end) {
    if (at == cells_.end() || at->first > position) {  // not seen yet
      const std::uint64_t gap_end = at == cells_.end() ? end : std::min(end, at->first);
      at = cells_.emplace_hint(at, position, Cell{gap_end, {}});
    }
    std::vector<Use>& uses = at->second.uses;
    for (const Use& old : uses) {
      if (old.node != node) check_pair(old, use, touch);
    }
    const Node& fresh = nodes_[node];
    if (touch.write) {
      uses.clear();
    } else {
      // A later read on the same chain stands for the earlier one; what a host thread knows to
      // be over matters to accesses under its own allocation only.
      std::erase_if(uses, [&](const Use& old) {
        if (old.allocation != allocation) return known(old);
        return !old.write && nodes_[old.node].chain == fresh.chain;
      });
    }
    uses.push_back(use);
    position = at->second.end;
    ++at;
  }
}

void RaceDetector::check_lifetime(const Use& use, const Touch& touch) {
  Allocation& allocation = allocations_[use.allocation - 1];
  const Node& node = nodes_[use.node];
  if (allocation.used.at(node.chain) < node.position)
    allocation.used.set(node.chain, node.position);
  constexpr std::size_t kHistory = 32;
  ++allocation.uses;
  if (allocation.history.size() < kHistory &&
      (allocation.history.empty() || allocation.history.back().node != use.node)) {
    allocation.history.push_back(use);
  }
  const std::string* what = nullptr;
  static const std::string kBefore = "access not ordered after the allocation\n";
  static const std::string kAfter = "access after the free\n";
  static const std::string kUnordered = "access and free in no order\n";
  Report::Kind kind = Report::BeforeAllocation;
  if (!node.clock.covers(allocation.born)) {
    what = &kBefore;
  } else if (allocation.freed) {
    const bool after = node.clock.covers(allocation.died);
    kind = after ? Report::AfterFree : Report::FreeUnordered;
    what = after ? &kAfter : &kUnordered;
  }
  if (what == nullptr) return;
  report(kind,
         node.step,
         touch.address,
         touch.bytes,
         *what + describe(use) + describe(use.allocation));
}

// An allocator that lets memory sleep copies callers' bytes: when it knows that the work which
// writes them is over, and back before any other.
void RaceDetector::check_saving(const Use& use, const Touch& touch) {
  if (touch.memory == Memory::Unmapped) return;
  const std::uint64_t end = touch.physical + touch.bytes;
  split(end);
  for (auto at = split(touch.physical); at != cells_.end() && at->first < end; ++at) {
    for (const Use& old : at->second.uses) {
      const bool by_host = host_chain_[nodes_[old.node].chain];  // over when it is announced
      if ((!old.write && !use.write) || by_host || known(old)) continue;
      return report(Report::AllocatorFault,
                    nodes_[use.node].step,
                    touch.address,
                    touch.bytes,
                    "the allocator copies bytes while work on them may run\n" + describe(old) +
                        describe(use));
    }
  }
}

void RaceDetector::check_pair(const Use& old, const Use& fresh, const Touch& touch) {
  const Node& before = nodes_[old.node];
  const Node& after = nodes_[fresh.node];
  // The second: what a running kernel touches late may come before what follows it.
  const bool ordered = after.clock.at(before.chain) >= before.position ||
                       before.clock.at(after.chain) >= after.position;
  if (ordered) return;
  if (old.allocation == fresh.allocation) {
    if (!old.write && !fresh.write) return;
    // Host memory that nobody announced may be another block of the host's heap by now.
    if (fresh.allocation == 0 && heard_of(old)) return;
    report(Report::Conflict,
           after.step,
           touch.address,
           touch.bytes,
           "two accesses in no order\n" + describe(old) + describe(fresh) +
               describe(fresh.allocation));
    return;
  }
  // Between two allocations the allocator may have used what it had learnt in any thread: it
  // hands that on from thread to thread under locks that the test does not announce. Reads
  // count too: every access by the last owner comes before every access by the next.
  if (known(old)) return;
  report(Report::AllocatorFault,
         after.step,
         touch.address,
         touch.bytes,
         "the same bytes under two allocations, accesses in no order\n" + describe(old) +
             describe(fresh) + describe(old.allocation) + describe(fresh.allocation));
}

bool RaceDetector::heard_of(const Use& use) const {
  const Node& node = nodes_[use.node];
  return heard_.at(node.chain) >= node.position;
}

// Makes `at` a boundary; the first cell that begins there or later.
RaceDetector::Cells::iterator RaceDetector::split(std::uint64_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin() || (next != cells_.end() && next->first == at)) return next;
  const auto previous = std::prev(next);
  if (previous->second.end <= at) return next;
  Cell upper{previous->second.end, previous->second.uses};
  previous->second.end = at;
  return cells_.emplace_hint(next, at, std::move(upper));
}

void RaceDetector::forget(std::span<const Touch> touches) {
  for (const Touch& touch : touches) {
    if (touch.memory == Memory::Unmapped) continue;
    const auto end = split(touch.physical + touch.bytes);
    cells_.erase(split(touch.physical), end);
  }
}

}  // namespace custash::sim
