// SPDX-License-Identifier: MIT
// MemoryPolicy: may a context hold more memory than it needs, to save calls? It answers from
// what it has counted: how often pages were moved for a size (Refaults), how often threads took
// each other's blocks (Thefts), whether the program repeats itself (Settling), and the part of
// the time that pages take (MappingCost). All its constants are here. Guarded by the lock of
// its ContextCache. Pure. decision 15, decision 19
#pragma once

#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace custash {

// Shares of the most that was ever in use. Beyond the first, pages are moved instead of made.
// The second limits how much is made ahead of the requests; the third, how much is made in
// place of moves while those take little of the time.
inline constexpr Bytes kShareBeforeMoves = 128;
inline constexpr Bytes kShareAhead = 64;
inline constexpr Bytes kShareBought = 64;

// What may be made in place of moves while those take little of the time (MappingCost).
constexpr Bytes most_bought(Bytes most) {
  return std::max(most / kShareBought, kHandleBytes);
}

// The sizes for which pages are moved again and again. A program that repeats itself would move
// them for ever. After a few times new memory is made instead (rent or buy).
class Refaults {
 public:
  // A block that memory was got for: made, or moved to it.
  struct Served {
    Address address = 0;
    std::uint64_t buffer_id = 0;
    std::int64_t when = 0;  // as a count of requests served
  };

  // Pages that were given up so that others could have them.
  struct GivenUp {
    std::int64_t when = -1;  // as a count of requests served; -1: never
    bool missed = false;     // they were wanted again soon after
  };

  // `bytes` of such pages are wanted again. If that is soon, they should have been kept.
  void wanted(GivenUp* pages, Bytes bytes, std::int64_t now);

  // A size that recurs later than that costs little when it is moved. Each of the threads may
  // have made this many requests meanwhile.
  [[nodiscard]] static bool soon(std::int64_t then, std::int64_t now, std::size_t threads = 1) {
    return now - then < kSoon * static_cast<std::int64_t>(threads);
  }

  // Memory must be got for a block of this size. True if moving has cost enough for it:
  // an earlier block of the size was freed soon after memory was got for it, and that has
  // happened often. In a program that has `settled` once is enough: what it moves, it moves in
  // each of its rounds. `lives(served)`: that block is still there.
  template <typename Lives>
  [[nodiscard]] bool paid_off(Bytes size, std::int64_t now, bool settled, Lives lives) {
    const auto found = sizes_.find(size);
    if (found == sizes_.end()) return false;
    Size& of = found->second;
    forget_old(of, now);
    const auto gone = std::find_if_not(of.served.begin(), of.served.end(), lives);
    if (gone == of.served.end()) return false;
    of.served.erase(gone);  // stands for one block only
    return of.cost >= (settled ? 1 : kCostOfMemory);
  }

  // Counts handles moved for a block of this size.
  void moved(Bytes size, std::size_t handles);
  void got(Bytes size, const Served& served);

  // Counts bytes allocated beyond the limit on held memory.
  void allow(Bytes bytes) { allowed_ += bytes; }

  [[nodiscard]] Bytes allowed() const { return allowed_; }

  [[nodiscard]] std::size_t sizes() const { return sizes_.size(); }

 private:
  // Moves of handles; one miss counts for a few at most. So a size that is missed once or twice
  // never makes memory.
  static constexpr std::size_t kCostOfMemory = 12;
  static constexpr std::size_t kMostAtOnce = 4;
  static constexpr std::int64_t kSoon = 1000;  // requests
  static constexpr std::size_t kSizes = 256;

  struct Size {
    std::size_t cost = 0;
    std::vector<Served> served;
  };

  static bool is_old(const Served& served, std::int64_t now) { return !soon(served.when, now); }

  static void forget_old(Size& of, std::int64_t now);

  std::unordered_map<Bytes, Size> sizes_;
  Bytes allowed_ = 0;
};

// The sizes of which threads take each other's ready blocks. Each theft stops all threads of
// the cache for a moment. So after a few thefts one more block is worth its memory (rent or
// buy).
class Thefts {
 public:
  // A thread had to take another thread's block. `ready` blocks of the size were there for
  // `takers` threads. True if `blocks` more should be made instead: a slab's, or one.
  [[nodiscard]] bool paid_off(
      Bytes size, std::size_t blocks, std::size_t ready, std::size_t takers, std::int64_t now);

 private:
  static constexpr Bytes kTimes = 8;     // for a block of that many MiB or more
  static constexpr Bytes kMost = 1_GiB;  // of all sizes
  static constexpr std::size_t kSizes = 256;

  struct Size {
    Bytes times = 0;          // each soon after the one before
    std::int64_t latest = 0;  // as a count of requests served
    std::size_t made = 0;     // blocks
  };

  std::unordered_map<Bytes, Size> sizes_;
  Bytes made_ = 0;
};

// Whether a program has settled, that is, repeats itself with the memory that it has.
// It counts requests, not time.
class Settling {
 public:
  // `most`: the most bytes ever in use.
  void in_use(std::int64_t most, std::int64_t now);

  // Memory was made, and not in place of moves. It counts for the time when most was in use.
  // Made later, it comes from the rounds of the program: for threads that take each other's
  // blocks, for blocks that wait, for the first slab of a class.
  void memory_came() { last_ = rose_; }

  // After a trim the program gets its memory anew.
  void forget() { most_ = 0; }

  // For three quarters of all requests, no memory has come to have more in use than ever. So if
  // the program repeats itself, it has done all that it does.
  [[nodiscard]] bool settled(std::int64_t now) const {
    return now - last_ > 3 * last_ + kLeast;
  }

 private:
  static constexpr std::int64_t kLeast = 64;

  std::int64_t most_ = 0;
  std::int64_t rose_ = 0;  // when `most_` did
  std::int64_t last_ = 0;
};

// Whether making and moving pages takes so little of the time that memory matters more.
class MappingCost {
 public:
  // One handle: made or moved, mapped, given access, unmapped. About what an H200's driver
  // takes.
  static constexpr Nanoseconds kHandle = 40'000;
  // The part of the time that may go to it.
  static constexpr Nanoseconds kPart = 100;
  // A program that makes more at once should have it quickly.
  static constexpr Nanoseconds kMuch = 500 * kHandle;
  // A program that has just begun makes much. It is not known yet how long it runs.
  static constexpr Nanoseconds kAtFirst = 750 * kHandle;

  // Counts handles that were made or moved. `now` may be before that of the last call, as it is
  // read without the lock.
  void note(Nanoseconds now, std::size_t handles);
  [[nodiscard]] bool is_small(Nanoseconds now);

 private:
  void drain(Nanoseconds now);

  Nanoseconds cost_ = kAtFirst;  // what the time has not paid for yet
  Nanoseconds last_ = 0;         // 0: not yet asked
};

struct MemoryPolicy {
  Settling settling;
  Refaults refaults;
  Thefts thefts;
  MappingCost mapping_cost;

  // After a trim the program gets its memory anew.
  void forget() {
    refaults = {};
    thefts = {};
    settling.forget();
  }
};

}  // namespace custash
