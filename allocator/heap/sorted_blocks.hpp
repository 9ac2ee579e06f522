// SPDX-License-Identifier: MIT
// SortedBlocks: blocks in the order of a key, no key twice. Sorted runs of up to 64 entries lie
// one after another in memory, so a search among thousands touches few cache lines. Guarded by
// its owner. Pure.
#pragma once

#include "allocator/heap/sorted_run.hpp"

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace custash {

struct Block;

template <typename Key>
class SortedBlocks {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Block*;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Block*;

    Iterator(const SortedBlocks* of, std::size_t run, std::size_t at)
        : of_(of), run_(run), at_(at) {}

    Block* operator*() const { return of_->runs_[run_]->entries[at_].block; }

    [[nodiscard]] const Key& key() const { return of_->runs_[run_]->entries[at_].key; }

    Iterator& operator++() {
      if (++at_ == of_->runs_[run_]->count) {
        ++run_;
        at_ = 0;
      }
      return *this;
    }

    bool operator==(const Iterator& other) const {
      return run_ == other.run_ && at_ == other.at_;
    }

   private:
    friend class SortedBlocks;
    const SortedBlocks* of_;
    std::size_t run_, at_;
  };

  [[nodiscard]] Iterator begin() const { return {this, 0, 0}; }

  [[nodiscard]] Iterator end() const { return {this, runs_.size(), 0}; }

  // The first whose key is not less. A bound may be simpler than a key.
  template <typename Bound>
  [[nodiscard]] Iterator from(const Bound& bound) const {
    if (runs_.empty()) return end();
    const Place place = latest_ = search(bound);
    return place.at == runs_[place.run]->count ? Iterator(this, place.run + 1, 0)
                                               : Iterator(this, place.run, place.at);
  }

  // Null: there is none.
  [[nodiscard]] Block* find(const Key& key) const {
    const Iterator at = from(key);
    return at != end() && at.key() == key ? *at : nullptr;
  }

  // The last whose key is not greater; null: there is none.
  [[nodiscard]] Block* find_last(const Key& key) const {
    if (runs_.empty()) return nullptr;
    const Place place = place_of(key);
    const Run& run = *runs_[place.run];
    if (run.has(place.at, key)) return run.entries[place.at].block;
    return place.at == 0 ? nullptr : run.entries[place.at - 1].block;
  }

  [[nodiscard]] Block* last() const {
    return runs_.empty() ? nullptr : runs_.back()->entries[runs_.back()->count - 1].block;
  }

  // False: the key is there already.
  bool insert(const Key& key, Block* block) {
    if (runs_.empty()) add_run(0, std::make_unique<Run>(), key);
    Place place = place_of(key);
    if (runs_[place.run]->has(place.at, key)) return false;
    if (runs_[place.run]->full()) {
      split(place.run);
      const std::size_t half = runs_[place.run]->count;
      if (place.at > half) place = {place.run + 1, place.at - half};
    }
    runs_[place.run]->insert(place.at, {key, block});
    ++size_;
    if (place.at == 0) firsts_[place.run] = key;
    latest_ = place;
    return true;
  }

  // False: it was not there.
  bool erase(const Key& key) {
    if (runs_.empty()) return false;
    const Place place = latest_ = place_of(key);
    Run& run = *runs_[place.run];
    if (!run.has(place.at, key)) return false;
    run.erase(place.at);
    --size_;
    if (run.count == 0) {
      drop_run(place.run);
    } else if (place.at == 0) {
      firsts_[place.run] = run.entries[0].key;
    }
    if (place.run + 1 < runs_.size() &&
        runs_[place.run]->count + runs_[place.run + 1]->count <= Run::kMost / 2) {
      runs_[place.run]->append(*runs_[place.run + 1]);
      drop_run(place.run + 1);
    }
    return true;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] bool empty() const { return size_ == 0; }

  void clear() { *this = {}; }

 private:
  using Run = SortedRun<Key>;

  struct Place {
    std::size_t run = 0, at = 0;
  };

  template <typename Bound>
  [[nodiscard]] Place search(const Bound& bound) const {
    const std::size_t less =
        how_many_less(firsts_.size(), [&](std::size_t i) { return firsts_[i] < bound; });
    const std::size_t run = less == 0 ? 0 : less - 1;
    return {run, runs_[run]->less_than(bound)};
  }

  // The position of the key, or where it belongs. Often that is the place used last: a block
  // that is found is taken out, and returned soon.
  [[nodiscard]] Place place_of(const Key& key) const {
    if (fits(latest_, key)) return latest_;
    const Place place = search(key);
    const bool begins_next = place.at == runs_[place.run]->count &&
                             place.run + 1 < runs_.size() && firsts_[place.run + 1] == key;
    return begins_next ? Place{place.run + 1, 0} : place;
  }

  [[nodiscard]] bool fits(const Place& place, const Key& key) const {
    if (place.run >= runs_.size()) return false;
    const Run& run = *runs_[place.run];
    if (run.has(place.at, key)) return true;
    if (place.at == 0 || place.at > run.count || !(run.entries[place.at - 1].key < key))
      return false;
    if (place.at < run.count) return key < run.entries[place.at].key;
    return place.run + 1 == runs_.size() || key < firsts_[place.run + 1];
  }

  void add_run(std::size_t at, std::unique_ptr<Run> run, const Key& first) {
    // First the one that may fail: then nothing fails between the two.
    if (firsts_.size() == firsts_.capacity()) firsts_.reserve(2 * firsts_.size() + 1);
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(at), std::move(run));
    firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(at), first);
  }

  void drop_run(std::size_t at) {
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(at));
    firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void split(std::size_t at) {
    auto upper = std::make_unique<Run>();
    Run& made = *upper;
    add_run(at + 1, std::move(upper), runs_[at]->entries[Run::kMost / 2].key);
    runs_[at]->split(made);
  }

  // The first key of each run, and the runs. No run is empty.
  std::vector<Key> firsts_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::size_t size_ = 0;
  mutable Place latest_;
};

}  // namespace custash
