// SPDX-License-Identifier: MIT
// Fences of plain frees are waited for as the program without custash waits at these frees.
// Without custash an allocation waits for nothing else: custash waits for the rest with
// patience (patience.hpp). Proved: tests/models/reuse.pml.
#include "allocator/cache/pressure_waits.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>

namespace custash {

Status PressureWaits::wait_for_frees() {
  const Status waited = fences_.wait_frees();
  std::vector<StreamState*> stream_states;
  {
    CacheLock lock(core_.mutex);
    for (StreamState& stream_state : streams_.all())
      if (stream_state.newest_free_event.load() >
          std::max(fences_.passed(), stream_state.over.load()))
        stream_states.push_back(&stream_state);
  }
  if (holds(Rule::ordered_frees_pass_by_their_events))
    core_.timeline.wait_free_events(stream_states);
  (void)freed_.collect_abroad(AbroadWait::Yes);
  CacheLock lock(core_.mutex);
  ++core_.stats.num_sync_all_streams;
  thread_caches_.empty_all();
  for (const auto& pool : core_.pools) {
    if (stream_states.empty()) break;
    pool->slabs.forget_orders();
    pool->small_pages.blocks().forget_orders(fences_.passed());
    pool->large.blocks().forget_orders(fences_.passed());
  }
  reclaim_.drain();
  return waited;
}

// Covers the frees without an event of their own: frees of small blocks, and frees whose event
// the driver refused. An event recorded now also covers work submitted after those frees.
bool PressureWaits::wait_for_all_frees() {
  {
    CacheLock lock(core_.mutex);
    const Position passed = fences_.passed();
    const bool waits =
        std::any_of(core_.pools.begin(), core_.pools.end(), [&](const auto& pool) {
          return pool->large.blocks().waits(passed) ||
                 pool->small_pages.blocks().waits(passed) || pool->slabs.waits(passed);
        });
    if (!waits) return false;
  }
  const bool passed = fences_.wait_patiently(core_.timeline.submissions().submitted());
  CacheLock lock(core_.mutex);
  reclaim_.drain();
  return passed;
}

// The driver waits for the device when it frees plain memory, even for kernels launched after
// every free. True: the device is idle, or it finished all its work several times while other
// threads submitted more.
bool PressureWaits::wait_idle() {
  constexpr int kRounds = 8;
  Patience::Wait waiting(fences_.patience());
  for (int round = 0; round < kRounds; ++round) {
    const Position everything = core_.timeline.submissions().submitted_with_unseen();
    Unseen unseen = Unseen::Anew;
    for (bool idle = false; !idle; unseen = Unseen::AsBefore) {
      fences_.poll(everything);
      idle = core_.others_idle(unseen) && fences_.passed() >= everything;
      if (core_.timeline.events().broken()) return true;  // the driver reports it
      if (!idle && !waiting.go_on()) return false;
    }
    if (!fences_.unfinished()) return true;
  }
  return true;
}

bool PressureWaits::plain_may_go() {
  {
    CacheLock lock(core_.mutex);
    const bool any = std::any_of(core_.pools.begin(), core_.pools.end(), [](const auto& pool) {
      return pool->large.has_free_segment() || pool->small_pages.has_free_segment();
    });
    if (!any && !freed_.exported().has_plain_left()) return false;
  }
  return !holds(Rule::plain_memory_goes_back_when_idle) || wait_idle();
}

// The host may hand memory to a kernel that already runs. A search asks must_be_over(), takes
// debt, and asks once more here. The second question sees a launch that did not see the debt.
void PressureWaits::hand_over(const CrossWait& wait) {
  if (wait.owed > fences_.passed() && core_.must_be_over() &&
      holds(Rule::debt_taken_beside_a_launch_is_waited_for))
    fences_.wait_for(wait.owed).ignore();  // broken() reports it
}

}  // namespace custash
