// SPDX-License-Identifier: MIT
#include "tests/property/order.hpp"

#include <algorithm>

namespace custash::property {

void join(Clock& into, const Clock& from) {
  if (from.size() > into.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

int Order::add_lane(LaneModel lane) {
  lanes_.push_back(std::move(lane));
  return static_cast<int>(lanes_.size()) - 1;
}

Clock Order::before(int index, int thread) const {
  const LaneModel& self = lanes_[static_cast<std::size_t>(index)];
  Clock clock = self.clock;
  join(clock, hosts_[static_cast<std::size_t>(thread)]);
  for (const LaneModel& other : lanes_) {
    if (other.context != self.context) continue;
    if ((self.legacy && (other.blocking || other.legacy)) || (self.blocking && other.legacy))
      join(clock, other.clock);
  }
  return clock;
}

int Order::submit(int index, int thread) {
  Clock clock = before(index, thread);
  const auto at = static_cast<std::size_t>(index);
  if (clock.size() <= at) clock.resize(at + 1);
  const int number = ++clock[at];
  lanes_[at].clock = std::move(clock);
  return number;
}

Clock Order::before_early(int index, int thread) const {
  const LaneModel& self = lanes_[static_cast<std::size_t>(index)];
  Clock clock = self.before_kernel;
  join(clock, hosts_[static_cast<std::size_t>(thread)]);
  return clock;
}

int Order::submit_kernel(int index, int thread, bool early) {
  Clock begins = early ? before_early(index, thread) : before(index, thread);
  const int number = submit(index, thread);
  lanes_[static_cast<std::size_t>(index)].before_kernel = std::move(begins);
  return number;
}

std::vector<int> Order::unordered(const std::vector<UseModel>& uses,
                                  const Clock& clock,
                                  bool write) {
  std::vector<int> lanes;
  for (const UseModel& use : uses) {
    const auto at = static_cast<std::size_t>(use.lane);
    const int known = at < clock.size() ? clock[at] : 0;
    if (known >= use.count || (!write && !use.write)) continue;
    if (std::find(lanes.begin(), lanes.end(), use.lane) == lanes.end())
      lanes.push_back(use.lane);
  }
  return lanes;
}

}  // namespace custash::property
