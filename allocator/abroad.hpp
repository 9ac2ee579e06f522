// SPDX-License-Identifier: MIT
// Abroad: blocks freed on a stream of another context, until an event on that stream has
// passed. Positions of this context say nothing of such a stream. Guarded by the lock of its
// DeviceCache. Rank 5.
#pragma once

#include "allocator/pool.hpp"
#include "allocator/terms.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace custash {

class Abroad {
 public:
  struct Entry {
    Found found;
    HostUse until;
    Stamp stamp;  // what it waits for here, besides
  };

  // Without the lock.
  [[nodiscard]] bool empty() const { return count_.load() == 0; }

  // Before a block is taken out of its owner's hands: add() needs no host memory then.
  void make_room() { entries_.reserve(std::max(2 * entries_.size(), entries_.size() + 8)); }

  void add(Entry entry) {
    entries_.push_back(std::move(entry));
    count_.store(entries_.size());
  }

  [[nodiscard]] std::vector<HostUse> uses() const {
    std::vector<HostUse> all;
    for (const Entry& entry : entries_)
      all.push_back(entry.until);
    return all;
  }

  // Takes out those that wait for one of these.
  template <typename Give>
  void take(const std::vector<HostUse>& over, Give give) {
    for (std::size_t i = entries_.size(); i-- > 0;) {
      const auto same = [&](const HostUse& use) {
        return use.event == entries_[i].until.event;
      };
      if (std::none_of(over.begin(), over.end(), same)) continue;
      const Entry entry = std::exchange(entries_[i], entries_.back());
      entries_.pop_back();
      count_.store(entries_.size());
      give(entry);
    }
  }

  void clear() {
    entries_.clear();
    count_.store(0);
  }

 private:
  std::vector<Entry> entries_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace custash
