// SPDX-License-Identifier: MIT
// StatsDelta: what one thread has taken and given since it was last counted into the
// statistics. Kept apart so that threads do not write the same counters; the highest sums are
// kept, too, so that the peaks of one thread alone are exact. (With several, a peak is too low
// by no more than what the others' magazines hold.) Rank 2, pure; guarded as its owner is.
#pragma once

#include "allocator/base/stats.hpp"

#include <cstdint>

namespace custash {

class StatsDelta {
 public:
  [[gnu::always_inline]] void take(bool small, std::int64_t bytes, std::int64_t requested) {
    turn_to(small).take(bytes, requested);
  }

  [[gnu::always_inline]] void give(bool small, std::int64_t bytes, std::int64_t requested) {
    turn_to(small).give(bytes, requested);
  }

  // Counts all that into `stats` and starts anew.
  void fold(DeviceStats& stats) {
    end_run();
    all_.fold(stats, StatPool::All);
    small_part_.fold(stats, StatPool::Small);
    large_part_.fold(stats, StatPool::Large);
    // What a magazine holds is free, beside others.
    small_part_.fold_inverse(stats, StatPool::All);
    small_part_.fold_inverse(stats, StatPool::Small);
    *this = StatsDelta();
  }

 private:
  struct Row {
    std::int64_t net = 0, highest = 0, lowest = 0, up = 0;

    void rise(std::int64_t by) {
      net += by;
      up += by;
      if (net > highest) highest = net;
    }

    void fall(std::int64_t by) {
      net -= by;
      if (net < lowest) lowest = net;
    }

    // What `later` has counted comes after this.
    void append(const Row& later) {
      if (net + later.highest > highest) highest = net + later.highest;
      if (net + later.lowest < lowest) lowest = net + later.lowest;
      net += later.net;
      up += later.up;
    }

    void fold(Stat& stat) const { stat.change(net, highest, up); }

    void fold_inverse(Stat& stat) const { stat.change(-net, -lowest, up - net); }
  };

  struct Part {
    Row count, bytes, requested;

    void take(std::int64_t size, std::int64_t asked) {
      count.rise(1);
      bytes.rise(size);
      requested.rise(asked);
    }

    void give(std::int64_t size, std::int64_t asked) {
      count.fall(1);
      bytes.fall(size);
      requested.fall(asked);
    }

    void append(const Part& later) {
      count.append(later.count);
      bytes.append(later.bytes);
      requested.append(later.requested);
    }

    void fold(DeviceStats& stats, StatPool pool) const {
      const auto at = static_cast<std::size_t>(pool);
      count.fold(stats.allocation[at]);
      count.fold(stats.active[at]);
      bytes.fold(stats.allocated_bytes[at]);
      bytes.fold(stats.active_bytes[at]);
      requested.fold(stats.requested_bytes[at]);
    }

    void fold_inverse(DeviceStats& stats, StatPool pool) const {
      const auto at = static_cast<std::size_t>(pool);
      count.fold_inverse(stats.inactive_split[at]);
      bytes.fold_inverse(stats.inactive_split_bytes[at]);
    }
  };

  // Requests small and large come in runs: only the run is counted at each, and at its end it
  // is appended to its own part and to all.
  Part& turn_to(bool small) {
    if (small != small_) [[unlikely]]
      end_run();
    return run_;
  }

  [[gnu::noinline]] void end_run() {
    (small_ ? small_part_ : large_part_).append(run_);
    all_.append(run_);
    run_ = Part();
    small_ = !small_;
  }

  bool small_ = true;
  Part run_, small_part_, large_part_, all_;
};

}  // namespace custash
