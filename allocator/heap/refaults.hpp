// SPDX-License-Identifier: MIT
// Refaults: the sizes for which pages are moved again and again. A program that repeats itself
// would move them for ever. After a few times new memory is made instead (rent or buy).
// Guarded by the lock of its ContextCache. Pure.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/units.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace custash {

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
  void wanted(GivenUp* pages, Bytes bytes, std::int64_t now) {
    if (pages->when < 0) return;
    const bool missed = soon(pages->when, now);
    if (missed && !pages->missed) allowed_ += bytes;
    CUSTASH_ASSERT(missed || !pages->missed || allowed_ >= bytes);
    if (!missed && pages->missed) allowed_ -= bytes;
    *pages = {.missed = missed};
  }

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
  void moved(Bytes size, std::size_t handles) {
    sizes_[size].cost += std::min(handles, kMostAtOnce);
  }

  void got(Bytes size, const Served& served) {
    if (sizes_.size() >= kSizes)
      std::erase_if(sizes_, [&](const auto& each) {
        const std::vector<Served>& all = each.second.served;
        return all.empty() || is_old(all.back(), served.when);
      });
    sizes_[size].served.push_back(served);
  }

  // Counts bytes allocated beyond the limit on held memory.
  void allow(Bytes bytes) { allowed_ += bytes; }

  [[nodiscard]] Bytes allowed() const { return allowed_; }

  [[nodiscard]] std::size_t sizes() const { return sizes_.size(); }

  void forget() { *this = {}; }

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

  static void forget_old(Size& of, std::int64_t now) {
    std::erase_if(of.served, [&](const Served& served) { return is_old(served, now); });
    if (of.served.empty()) of.cost = 0;
  }

  std::unordered_map<Bytes, Size> sizes_;
  Bytes allowed_ = 0;
};

}  // namespace custash
