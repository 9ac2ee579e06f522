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
#include <utility>

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

  // A call that makes or releases what is charged, of any device. While one is under way, how
  // much of what the process uses is charged is unknown.
  class Call {
   public:
    struct Later {};  // begins with the charge

    Call() { begin(); }

    explicit Call(Later) {}

    ~Call() { end(); }

    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void begin();
    void end();

   private:
    bool under_way_ = false;
  };

  // What was charged before the process was asked for what it uses.
  struct Before {
    std::uint64_t calls = 0;
    Bytes charged = 0;
    Bytes taken = 0;
  };

  // Finds what is not charged, before each charge. No lock is held.
  struct Measure {
    void (*refresh)(int device, bool again) noexcept;
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

  // Before memory is requested by the call. False where that would exceed the limit.
  bool take(Bytes bytes, Call* call) {
    if (!limited()) return true;
    for (const bool again : {false, true}) {
      measure(again);
      call->begin();
      if (charge(bytes)) return true;
      call->end();
    }
    return false;
  }

  // The memory is there already.
  void add(Bytes bytes) {
    if (!limited()) return;
    taken_.fetch_add(bytes);
    group_.own->charged.fetch_add(bytes);
  }

  // Memory was released, or the driver refused it.
  void give(Bytes bytes) {
    if (!limited()) return;
    CUSTASH_ASSERT(bytes <= group_.own->charged.load());
    group_.own->charged.fetch_sub(bytes);
  }

  // Finds what is not charged, unless that was a moment ago and is not wanted `again`.
  void measure(bool again) const {
    if (measure_.refresh != nullptr) measure_.refresh(measure_.device, again);
  }

  [[nodiscard]] Before before() const {
    const std::uint64_t now = calls.load();
    const Bytes taken = taken_.load();
    return {now, group_.own->charged.load(), taken};
  }

  // `used`: what the process was found to use since `before`. Exact if no call was under way;
  // else what is not charged may be more than it seems, and no less is noted than before.
  bool found(Bytes used, Before before) {
    const Bytes charged = group_.own->charged.load();
    const bool exact =
        before.calls % kMost == 0 && before.calls == calls.load() && before.charged == charged;
    const Bytes known = before.charged + (taken_.load() - before.taken);
    const Bytes beyond = used - std::min(used, known);
    group_.own->found.store(exact ? beyond : std::max(beyond, group_.own->found.load()));
    return exact;
  }

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
  static constexpr std::uint64_t kMost = 1ULL << 20U;  // threads
  static constexpr std::uint64_t kBegun = kMost + 1;

  bool charge(Bytes bytes) {
    bool dead_are_gone = !shared();
    for (int tries = 0; tries < kTries; ++tries) {
      if (bytes > room()) {
        if (dead_are_gone) return false;
        group_.free_shares_of_the_dead(group_.shares);
        dead_are_gone = true;
        continue;
      }
      taken_.fetch_add(bytes);
      group_.own->charged.fetch_add(bytes);
      if (used() <= limit()) return true;
      group_.own->charged.fetch_sub(bytes);  // another was faster, or will try again
      sched_yield();
    }
    return false;
  }

  // Those under way, below kMost, and above it all that were begun.
  static std::atomic<std::uint64_t> calls;

  QuotaShare alone_{};
  Group group_{{&alone_, 1}, &alone_, nullptr};
  Measure measure_{};
  std::atomic<Bytes> taken_{0};  // all that was ever charged
  std::atomic<Bytes> limit_{~0ULL};
};

}  // namespace custash
