// SPDX-License-Identifier: MIT
// Abroad: blocks freed on a stream of another context, until an event on that stream has
// passed. Positions of this context say nothing of such a stream. Guarded by the lock of its
// ContextCache.
#pragma once

#include "allocator/heap/block_ref.hpp"
#include "allocator/order/event.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

namespace custash {

class Abroad {
 public:
  struct Entry {
    BlockRef found;
    HostUse until;
    ReuseAfter reuse_after;  // what it waits for here, besides
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

  // Takes one out that waits for one of these.
  std::optional<Entry> take(const std::vector<HostUse>& over) {
    const auto waits = [&](const Entry& entry) {
      return std::any_of(over.begin(), over.end(), [&](const HostUse& use) {
        return use.event == entry.until.event;
      });
    };
    const auto at = std::find_if(entries_.begin(), entries_.end(), waits);
    if (at == entries_.end()) return std::nullopt;
    std::swap(*at, entries_.back());
    std::optional<Entry> taken = std::move(entries_.back());
    entries_.pop_back();
    count_.store(entries_.size());
    return taken;
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
