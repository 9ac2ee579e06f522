// SPDX-License-Identifier: MIT
// Recording fences and querying them. Waits are in fence_waits.cpp.
// Proved: tests/models/capture.pml and tests/models/reuse.pml.
#include "allocator/order/fence_log.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {
namespace {

// No more fences than this are kept apart: a wait for one of the others waits for the next
// newer one.
constexpr std::size_t kMaxFences = 64;

}  // namespace

Status FenceLog::stamp_free(std::uint64_t* stamp, FenceKind kind) {
  // With one_lane:off submissions may go unseen: every free counts as one.
  const bool all_seen = config_.one_lane || !holds(Rule::frees_count_where_work_is_unseen);
  const std::uint64_t need =
      all_seen ? submissions_.stamp_everything() : submissions_.count_one();
  *stamp = need;
  return ensure(need, kind);
}

Status FenceLog::ensure(std::uint64_t need, FenceKind kind) {
  const std::uint64_t have = kind == FenceKind::AtFree ? payable() : newest();
  if (need <= have || need <= passed()) return {};
  Fence fence;
  fence.late = kind == FenceKind::Late;
  fence.covers =
      submissions_.stamp_everything() + (holds(Rule::fences_cover_what_came_before)
                                             ? 0
                                             : 1);  // read before the event is recorded
  fence.lane = submissions_.only_lane();
  const Status status = record(fence);
  // Without a fence for now: poll() records one later.
  if (!status.ok()) return events_.note_if_broken(status) ? status : Status();
  recorded_.fetch_add(1);
  commit(std::move(fence));
  return {};
}

Status FenceLog::record(Fence& fence) {
  EventRef event;
  if (events_.has_context_events()) {
    if (const Status status = events_.take(&event); !status.ok()) return status;
  }
  const CaptureGate::Pass pass(events_.gate());
  Status status;
  if (events_.may_record_context()) {
    status = events_.record_context(event);
    fence.event = std::move(event);
  }
  if (!events_.has_context_events() || !fence.event) {
    fence.event = EventRef();
    status = record_lanes(fence);
  }
  return status;
}

Status FenceLog::record_lanes(Fence& fence) {
  const CurrentContext current(events_.driver(), events_.context());
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(events_.driver());
  Fence older;  // covers streams on which nothing can be recorded: destroyed, captured, foreign
  bool needs_older = false;
  for (Lane* lane : submissions_.active_lanes()) {
    EventRef event;
    bool under_way = false;
    {
      Lock lock(mutex_);
      // A submission that `covers` counts may not be in `last` yet: it is pending then.
      if (lane->idle_after(passed())) continue;
      under_way = lane->pending.load() != 0;
      if (lane->tail &&
          (lane->idle_after(lane->tail_covers) || !holds(Rule::tails_are_the_newest)))
        event = lane->tail;
    }
    if (!event && !events_.record_lane(*lane, fence.late, &event)) {
      if (!holds(Rule::fences_cover_every_stream)) continue;
      Lock lock(mutex_);
      const bool covered = !fences_.empty() && lane->idle_after(fences_.back().covers);
      if (!covered && !(under_way && fence.covers == 0))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // without a fence for now
      if (!covered && lane->tail) fence.on_lanes.push_back({lane->tail, lane});
      if (fences_.empty()) continue;
      needs_older = true;
      older = fences_.back();
      continue;
    }
    fence.on_lanes.push_back({std::move(event), lane});
  }
  if (needs_older) {
    if (older.event) fence.on_lanes.push_back({older.event, nullptr});
    fence.on_lanes.insert(fence.on_lanes.end(), older.on_lanes.begin(), older.on_lanes.end());
  }
  return {};
}

void FenceLog::commit(Fence fence) {
  Lock lock(mutex_);
  atomic_max(newest_, fence.covers);
  if (!fence.late || !holds(Rule::late_fences_are_only_asked))
    atomic_max(payable_, fence.covers);
  if (fence.covers <= passed()) return;
  const bool host_waits = host_until_.load() > passed();
  if (!fence.late && submissions_.one_lane() &&
      !(host_waits && holds(Rule::fences_stay_for_the_host)) && !fences_.empty() &&
      fences_.back().covers <= fence.covers) {
    // Stream order is the fence. One event is enough to pay with when a second lane comes.
    fences_.clear();
  }
  auto at = std::upper_bound(
      fences_.begin(), fences_.end(), fence.covers, [](std::uint64_t covers, const Fence& f) {
        return covers < f.covers;
      });
  fences_.insert(at, std::move(fence));
  if (fences_.size() > kMaxFences) fences_.erase(fences_.begin() + 1);
}

bool FenceLog::find(const Lock& lock, std::uint64_t need, Fence* out) const {
  return find_any(lock, need, false, out);
}

bool FenceLog::find_any(const Lock& lock, std::uint64_t need, bool late_too, Fence* out) const {
  mutex_.assert_held(lock);
  for (const Fence& fence : fences_) {
    if (fence.late && !late_too && holds(Rule::late_fences_are_only_asked)) continue;
    if (fence.covers < need && holds(Rule::fences_cover_the_position)) continue;
    *out = fence;
    return true;
  }
  return false;
}

void FenceLog::poll(std::uint64_t need) {
  // Fences in the log are queried first: often that is enough, and nothing is recorded.
  for (int round = 0; round < 2 && need > passed(); ++round) {
    if (round == 1 && need > newest())
      ensure(need, FenceKind::Late).ignore();  // broken() tells
    if (!poll_recorded()) return;
  }
}

// False when the oldest fence has not passed.
bool FenceLog::poll_recorded() {
  for (;;) {
    Fence oldest;
    {
      Lock lock(mutex_);
      if (fences_.empty()) return true;
      oldest = fences_.front();
    }
    if (!events_.query(oldest).ok()) return false;
    Lock lock(mutex_);
    retire(lock, oldest.covers);
  }
}

void FenceLog::retire(const Lock& lock, std::uint64_t covers) {
  mutex_.assert_held(lock);
  if (covers > passed()) patience_.note_end();
  atomic_max(passed_, covers);
  const auto left = std::find_if(fences_.begin(), fences_.end(), [&](const Fence& fence) {
    return fence.covers > covers;
  });
  fences_.erase(fences_.begin(), left);
  submissions_.retire(lock, covers);
}

void FenceLog::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  fences_.clear();
}

bool FenceLog::validate(const Lock& lock) const {
  mutex_.assert_held(lock);
  std::uint64_t last = passed();
  for (const Fence& fence : fences_) {
    if (fence.covers < last || fence.covers > submissions_.stamp_everything()) return false;
    last = fence.covers;
  }
  return true;
}

}  // namespace custash
