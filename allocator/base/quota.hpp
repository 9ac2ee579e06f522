// SPDX-License-Identifier: MIT
// Quota: what a process uses of one device by any call, and the most that it may (limit_all).
// The members of a group each have a share in memory that all of them map, and their shares
// together stay below the limit. A member adds to its own share, then looks at the sum: of
// those that pass, the one that added last has seen all others. So nobody passes beyond the
// limit, and a member that was killed leaves no more than its share behind. Lock free.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/units.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include <sched.h>

namespace custash {

// Plain data, zero at first: a new file holds free shares.
struct QuotaShare {
  std::atomic<std::uint64_t> owner;    // its process; 0: free
  std::atomic<std::uint64_t> started;  // of the process: numbers are used again
  std::atomic<std::uint64_t> names;    // where that number means the process
  std::atomic<Bytes> charged;          // before each call
  std::atomic<Bytes> found;            // measured beyond that
};

class Quota {
 public:
  struct Group {
    std::span<QuotaShare> shares;
    QuotaShare* own = nullptr;
    // Frees the shares of processes that are gone. No driver call.
    void (*free_shares_of_the_dead)(std::span<QuotaShare> shares) = nullptr;
  };

  // Finds what is not charged, before each charge. No lock is held.
  struct Measure {
    void (*refresh)(int device) noexcept;
    int device;
  };

  // Once, before the first call is charged. Without a group the process is alone.
  void begin(Bytes limit, const Group& group, const Measure& measure = {}) {
    if (group.own != nullptr) group_ = group;
    measure_ = measure;
    limit_.store(limit);
  }

  [[nodiscard]] bool limited() const { return limit_.load() != ~0ULL; }

  [[nodiscard]] Bytes limit() const { return limit_.load(); }

  [[nodiscard]] bool shared() const { return limited() && group_.own != &alone_; }

  // Before memory is requested. False where that would exceed the limit.
  bool take(Bytes bytes) {
    if (!limited()) return true;
    if (measure_.refresh != nullptr) measure_.refresh(measure_.device);
    bool dead_are_gone = !shared();
    for (int tries = 0; tries < kTries; ++tries) {
      if (bytes > room()) {
        if (dead_are_gone) return false;
        group_.free_shares_of_the_dead(group_.shares);
        dead_are_gone = true;
        continue;
      }
      group_.own->charged.fetch_add(bytes);
      if (used() <= limit()) return true;
      group_.own->charged.fetch_sub(bytes);  // another was faster, or will try again
      sched_yield();
    }
    return false;
  }

  // The memory is there already.
  void add(Bytes bytes) {
    if (limited()) group_.own->charged.fetch_add(bytes);
  }

  // Memory was released, or the driver refused it.
  void give(Bytes bytes) {
    if (!limited()) return;
    CUSTASH_ASSERT(bytes <= group_.own->charged.load());
    group_.own->charged.fetch_sub(bytes);
  }

  // What is not charged of `bytes`, which the process was found to use since `charged` was
  // read. Less by what is charged for calls that have yet to allocate.
  [[nodiscard]] Bytes beyond(Bytes bytes, Bytes charged) const {
    const Bytes known = std::max(charged, group_.own->charged.load());
    return bytes - std::min(bytes, known);
  }

  void set_found(Bytes bytes) { group_.own->found.store(bytes); }

  [[nodiscard]] Bytes room() const {
    return limited() ? limit() - std::min(limit(), used()) : ~0ULL;
  }

  // Of all members. Only where there is a limit.
  [[nodiscard]] Bytes used() const {
    Bytes sum = 0;
    for (const QuotaShare& share : group_.shares)
      sum += share.charged.load() + share.found.load();
    return sum;
  }

  [[nodiscard]] const QuotaShare& own() const { return *group_.own; }

 private:
  static constexpr int kTries = 1000;

  QuotaShare alone_{};
  Group group_{{&alone_, 1}, &alone_, nullptr};
  Measure measure_{};
  std::atomic<Bytes> limit_{~0ULL};
};

}  // namespace custash
