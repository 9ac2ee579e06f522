// SPDX-License-Identifier: MIT
// Fences of plain frees are waited for as the program without custash waits at these frees.
// Without custash an allocation waits for nothing else: custash waits for the rest with
// patience (patience.hpp). Proved: tests/models/reuse.pml.
#include "allocator/cache/pressure_waits.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"

#include <algorithm>

namespace custash {

Status PressureWaits::wait_for_frees() {
  const Status waited = core_.timeline.wait_frees();
  std::vector<Lane*> lanes;
  {
    CacheLock lock(core_.mutex);
    for (Lane& lane : streams_.all())
      if (lane.marked.load() > std::max(core_.timeline.passed(), lane.over.load()))
        lanes.push_back(&lane);
  }
  if (holds(Rule::ordered_frees_are_settled_by_marks)) core_.timeline.pass_marks(lanes);
  (void)freed_.collect_abroad(true);
  CacheLock lock(core_.mutex);
  ++core_.stats.num_sync_all_streams;
  thread_caches_.empty_all();
  for (const auto& pool : core_.pools) {
    if (lanes.empty()) break;
    pool->slabs.forget_orders();
    pool->small_pages.forget_orders(core_.timeline.passed());
    pool->large.forget_orders(core_.timeline.passed());
  }
  reclaim_.drain();
  return waited;
}

// Covers the frees without an event of their own: frees of small blocks, and frees whose event
// the driver refused. An event recorded now also covers work submitted after those frees.
bool PressureWaits::wait_for_all_frees() {
  {
    CacheLock lock(core_.mutex);
    const std::uint64_t passed = core_.timeline.passed();
    const bool waits =
        std::any_of(core_.pools.begin(), core_.pools.end(), [&](const auto& pool) {
          return pool->large.waits(passed) || pool->small_pages.waits(passed) ||
                 pool->slabs.waits(passed);
        });
    if (!waits) return false;
  }
  const bool passed = core_.timeline.wait_patiently(core_.timeline.stamp_everything());
  CacheLock lock(core_.mutex);
  reclaim_.drain();
  return passed;
}

// The driver waits for the device when it frees plain memory, even for kernels launched after
// every free. True: the device is idle, or it finished all its work several times while other
// threads submitted more.
bool PressureWaits::wait_idle() {
  constexpr int kRounds = 8;
  Patience::Wait waiting(core_.timeline.patience());
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t everything = core_.timeline.stamp_now();
    for (bool idle = false, anew = true; !idle; anew = false) {
      core_.timeline.poll(everything);
      idle = core_.others.idle(core_.others.state, core_.cache, anew) &&
             core_.timeline.passed() >= everything;
      if (core_.timeline.broken()) return true;  // the driver tells
      if (!idle && !waiting.go_on()) return false;
    }
    if (!core_.timeline.unfinished()) return true;
  }
  return true;
}

bool PressureWaits::plain_may_go() {
  {
    CacheLock lock(core_.mutex);
    const bool any = std::any_of(core_.pools.begin(), core_.pools.end(), [](const auto& pool) {
      return pool->large.has_free_segment() || pool->small_pages.has_free_segment();
    });
    if (!any) return false;
  }
  return !holds(Rule::plain_memory_goes_back_when_idle) || wait_idle();
}

// The host may hand memory to a kernel that already runs. A search asks must_be_over(), takes
// debt, and asks once more here. The second question sees a launch that did not see the debt.
void PressureWaits::settle_handed(const CrossWait& wait) {
  if (wait.owed > core_.timeline.passed() && core_.must_be_over() &&
      holds(Rule::debt_taken_beside_a_launch_is_waited_for))
    core_.timeline.wait_for(wait.owed).ignore();  // broken() tells
}

}  // namespace custash
