// SPDX-License-Identifier: MIT
// Order: what comes before what in a program that is being generated: a clock for each stream
// and each host thread. Only a guide for the generator; the judge is the race detector on the
// bare simulator. One owner, no lock.
#pragma once

#include "allocator/base/units.hpp"

#include <vector>

namespace custash::property {

using Clock = std::vector<int>;  // a count for each lane

void join(Clock& into, const Clock& from);

struct LaneModel {
  int stream = 0;
  int context = 0;
  int thread =
      0;  // whose commands may name it (per-thread streams; all of them where not synced)
  bool legacy = false;
  bool blocking = false;
  bool alive = true;
  bool capturing = false;
  bool green = false;  // its green context ends with it
  Clock clock = {};
  Clock before_kernel = {};  // what its last kernel came after
};

// One access, or the allocation itself.
struct UseModel {
  int lane = 0;
  int count = 0;
  bool write = false;
  bool several = false;  // by a graph over several devices
};

struct BlockModel {
  int id = 0;
  int context = 0;
  int thread = 0;
  Bytes bytes = 0;
  bool alive = true;
  bool shared = false;    // another process has it open
  bool captured = false;  // allocated on a stream that captured: its graph's alone
  std::vector<UseModel> uses = {};
  std::vector<int> named = {};  // pinned: lanes that it waits for
};

class Order {
 public:
  explicit Order(int threads) : hosts_(static_cast<std::size_t>(threads)) {}

  int add_lane(LaneModel lane);

  LaneModel& lane(int index) { return lanes_[static_cast<std::size_t>(index)]; }

  [[nodiscard]] int lanes() const { return static_cast<int>(lanes_.size()); }

  Clock& host(int thread) { return hosts_[static_cast<std::size_t>(thread)]; }

  // Everything that the next operation on the lane comes after.
  [[nodiscard]] Clock before(int lane, int thread) const;
  // Submits it; its number.
  int submit(int lane, int thread);
  // A kernel: one that begins early comes after no more than the kernel before it did.
  [[nodiscard]] Clock before_early(int lane, int thread) const;
  int submit_kernel(int lane, int thread, bool early);
  // Lanes whose uses are not before `clock`; reads matter to writers only.
  [[nodiscard]] static std::vector<int> unordered(const std::vector<UseModel>& uses,
                                                  const Clock& clock,
                                                  bool write);

  void host_waits_for(int lane, int thread) { join(host(thread), lane_clock(lane)); }

  [[nodiscard]] const Clock& lane_clock(int lane) const {
    return lanes_[static_cast<std::size_t>(lane)].clock;
  }

 private:
  std::vector<LaneModel> lanes_;
  std::vector<Clock> hosts_;
};

}  // namespace custash::property
