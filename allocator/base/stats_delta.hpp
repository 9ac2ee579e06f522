// SPDX-License-Identifier: MIT
// StatsDelta: the allocations and frees of one thread since they were last added to the
// statistics. Kept per thread so that threads do not write the same counters. It keeps the
// highest sums, too, so that the peaks of one thread alone are exact. With several threads a
// peak is too low by at most the bytes in the others' magazines. Pure; guarded as its owner is.
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

  // Adds all of it to `stats` and starts again at zero.
  void fold(DeviceStats& stats) {
    if (!turned_) return fold_run(stats);
    end_run();
    all_.fold(stats, StatPool::All);
    small_part_.fold(stats, StatPool::Small);
    large_part_.fold(stats, StatPool::Large);
    // Blocks in a magazine are free, beside others.
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

    // The counts of `later` come after these.
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

    [[nodiscard]] bool empty() const { return count.up == 0 && count.lowest == 0; }

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

  // Small and large requests come in runs. Each request counts in its run only. At the end of a
  // run it is appended to its own kind and to the total.
  Part& turn_to(bool small) {
    if (small != small_) [[unlikely]]
      turn();
    return run_;
  }

  // All requests so far were of one kind.
  void fold_run(DeviceStats& stats) {
    if (run_.empty()) return;
    run_.fold(stats, StatPool::All);
    run_.fold(stats, small_ ? StatPool::Small : StatPool::Large);
    if (small_) {
      run_.fold_inverse(stats, StatPool::All);
      run_.fold_inverse(stats, StatPool::Small);
    }
    run_ = Part();
  }

  [[gnu::noinline]] void turn() {
    turned_ = turned_ || !run_.empty();
    end_run();
    small_ = !small_;
  }

  void end_run() {
    (small_ ? small_part_ : large_part_).append(run_);
    all_.append(run_);
    run_ = Part();
  }

  bool small_ = true;
  bool turned_ = false;  // from one kind to the other
  Part run_, small_part_, large_part_, all_;
};

}  // namespace custash
