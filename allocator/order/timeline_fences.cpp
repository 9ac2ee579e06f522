// SPDX-License-Identifier: MIT
// The fences of a Timeline: recording, asking, waiting.
// Proved: tests/models/capture.pml, tests/models/ends.pml and tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/order/timeline.hpp"

#include <algorithm>
#include <thread>

namespace custash {
namespace {

// More fences than this are not kept apart: a wait for one of them waits for the next newer
// one.
constexpr std::size_t kMaxFences = 64;

// The context is of no use any more: it, its device or the driver is gone, or a kernel has
// faulted. Any other code says that one call could not be made: the fence is missing, nothing
// else.
bool is_fatal(CUresult code) {
  return is_sticky(code) || code == CUDA_ERROR_DEINITIALIZED ||
         code == CUDA_ERROR_NOT_INITIALIZED || code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

// One context that could not be made current is not the end of it; twice it is.
bool Timeline::is_gone(CUresult code) const {
  if (code != CUDA_ERROR_INVALID_CONTEXT) return is_fatal(code);
  return CurrentContext(driver_, context_).status().code() == code;
}

Status Timeline::stamp_free(std::uint64_t* stamp, FenceKind kind) {
  // one_lane:off means that submissions may go unseen: every free counts as one.
  const bool all_seen = config_.one_lane || !holds(Rule::frees_count_where_work_is_unseen);
  const std::uint64_t need = all_seen ? submitted_.load() : submitted_.fetch_add(1) + 1;
  *stamp = need;
  return ensure(need, kind);
}

Status Timeline::ensure(std::uint64_t need, FenceKind kind) {
  const std::uint64_t have = kind == FenceKind::AtFree ? payable_.load() : newest_.load();
  if (need <= have || need <= passed_.load()) return {};
  Fence fence;
  fence.late = kind == FenceKind::Late;
  fence.covers =
      submitted_.load() + (holds(Rule::fences_cover_what_came_before)
                               ? 0
                               : 1);  // before the record: the driver has all of these
  if (config_.one_lane) {
    Lock lock(mutex_);
    if (active_.size() == 1 || !(active_.empty() || holds(Rule::one_stream_alone_is_in_order)))
      fence.lane = active_.front();
  }
  const Status status = record(fence);
  if (!status.ok()) {
    if (!is_gone(status.code())) return {};  // unfenced for now: poll() makes up for it
    broken_.store(true);
    return status;
  }
  fences_made_.fetch_add(1);
  commit(std::move(fence));
  return {};
}

Status Timeline::record(Fence& fence) {
  EventRef event;
  if (context_events_.load()) {
    if (const Status status = events_.take(&event); !status.ok()) return status;
  }
  const CaptureGate::Pass pass(gate_);
  Status status;
  if (context_events_.load() && !(capturing() && holds(Rule::no_context_event_in_a_capture))) {
    status = driver_.ctx_record_event(context_, event.handle());
    fence.event = std::move(event);
    if (status.code() == CUDA_ERROR_NOT_SUPPORTED) context_events_.store(false);
  }
  if (!context_events_.load() || !fence.event) {
    fence.event = EventRef();
    status = record_lanes(fence);
  }
  return status;
}

Status Timeline::record_lanes(Fence& fence) {
  const CurrentContext current(driver_, context_);
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(driver_);
  Fence
      older;  // covers what cannot be recorded any more: destroyed, captured or foreign streams
  bool needs_older = false;
  std::vector<Lane*> lanes;
  {
    Lock lock(mutex_);
    lanes = active_;
  }
  for (Lane* lane : lanes) {
    EventRef event;
    bool under_way = false;
    {
      Lock lock(mutex_);
      // A submission that `covers` counts may not be in `last` yet: it is pending then.
      if (lane->idle_after(passed_.load())) continue;
      under_way = lane->pending.load() != 0;
      if (lane->tail &&
          (lane->idle_after(lane->tail_covers) || !holds(Rule::tails_are_the_newest)))
        event = lane->tail;
    }
    if (!event && !record_lane(*lane, fence, &event)) {
      if (!holds(Rule::fences_cover_every_stream)) continue;
      Lock lock(mutex_);
      const bool covered = !fences_.empty() && lane->idle_after(fences_.back().covers);
      if (!covered && !(under_way && fence.covers == 0))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // unfenced for now
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

// While the gate is held.
bool Timeline::stream_captures(const Lane& lane) const {
  if (!capturing() || !holds(Rule::no_event_lands_in_a_capture)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.stream_is_capturing(lane.stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Timeline::record_lane(Lane& lane, const Fence& fence, EventRef* event) {
  if (lane.orphan.load() || lane.is_named_by_user()) return false;
  // On the legacy stream an event is a barrier among the blocking streams: at a free bare CUDA
  // would have waited, later it would not.
  if (fence.late && lane.stream == CU_STREAM_LEGACY && holds(Rule::late_fences_are_no_barrier))
    return false;
  if (stream_captures(lane)) return false;
  return events_.take(event).ok() &&
         driver_.event_record(event->handle(), lane.stream) == CUDA_SUCCESS;
}

void Timeline::commit(Fence fence) {
  Lock lock(mutex_);
  atomic_max(newest_, fence.covers);
  if (!fence.late || !holds(Rule::late_fences_are_only_asked))
    atomic_max(payable_, fence.covers);
  if (fence.covers <= passed_.load()) return;
  const bool host_waits = host_until_.load() > passed_.load();
  if (!fence.late && one_lane() && !(host_waits && holds(Rule::fences_stay_for_the_host)) &&
      !fences_.empty() && fences_.back().covers <= fence.covers) {
    // Stream order is the fence; one event to pay with when a second lane comes is enough.
    fences_.clear();
  }
  auto at = std::upper_bound(
      fences_.begin(), fences_.end(), fence.covers, [](std::uint64_t covers, const Fence& f) {
        return covers < f.covers;
      });
  fences_.insert(at, std::move(fence));
  if (fences_.size() > kMaxFences) fences_.erase(fences_.begin() + 1);
}

bool Timeline::find_fence(std::uint64_t need, Fence* out, bool late_too) {
  for (const Fence& fence : fences_) {
    if (fence.late && !late_too && holds(Rule::late_fences_are_only_asked)) continue;
    if (fence.covers < need && holds(Rule::fences_cover_the_position)) continue;
    *out = fence;
    return true;
  }
  return false;
}

void Timeline::poll(std::uint64_t need) {
  // What is recorded already is asked first: often that is enough, and then nothing is
  // recorded.
  for (int round = 0; round < 2 && need > passed_.load(); ++round) {
    if (round == 1 && need > newest_.load())
      ensure(need, FenceKind::Late).ignore();  // broken() tells
    if (!poll_recorded()) return;
  }
}

// False when the oldest fence has not passed.
bool Timeline::poll_recorded() {
  for (;;) {
    Fence oldest;
    {
      Lock lock(mutex_);
      if (fences_.empty()) return true;
      oldest = fences_.front();
    }
    if (!query(oldest).ok()) return false;
    Lock lock(mutex_);
    retire(oldest.covers);
  }
}

Status Timeline::query(const Fence& fence) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  Status status;
  (void)fence.all_of([&](const EventRef& event, const Lane*) {
    queries_.fetch_add(1);
    status = driver_.event_query(event.handle());
    if (!holds(Rule::pending_fences_have_not_passed) && status.code() == CUDA_ERROR_NOT_READY)
      status = {};
    return status.ok();
  });
  if (!status.ok() && is_gone(status.code())) broken_.store(true);
  return status;
}

Status Timeline::wait_all() {
  const std::uint64_t need = submitted_.load();
  const auto unfenced = [&] { return need > newest_.load() && need > passed_.load(); };
  // What is in the way is over soon: a capture, or (without context events) a submission in
  // another thread. A wait for the device would invalidate the next capture, which nothing
  // keeps apart from it.
  constexpr int kTurns = 100;
  for (int turn = 0; turn < kTurns && (turn == 0 || unfenced()); ++turn) {
    if (turn != 0) std::this_thread::yield();
    if (const Status recorded = ensure(need, FenceKind::Late); !recorded.ok()) return recorded;
  }
  if (unfenced() && capturing()) {
    return holds(Rule::calls_under_way_are_not_waited_for)
               ? wait_returned()
               : Status(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (unfenced() && holds(Rule::unfenced_work_is_waited_for)) {
    if (const Status waited = wait_device(); !waited.ok()) return waited;
    Lock lock(mutex_);
    retire(need);
    return {};
  }
  Fence newest;
  {
    Lock lock(mutex_);
    if (fences_.empty()) return {};
    newest = fences_.back();
  }
  return wait_host(newest);
}

// Beside a capture: not for the calls that other threads have in the driver. None of them comes
// before what this thread does.
Status Timeline::wait_returned() {
  Fence fence{.late = true};  // it covers 0: a call under way may be missing
  {
    const CaptureGate::Pass pass(gate_);
    if (const Status recorded = record_lanes(fence); !recorded.ok()) return recorded;
  }
  return wait_host(fence);
}

Status Timeline::wait_frees() {
  Fence newest;
  {
    Lock lock(mutex_);
    for (const Fence& fence : fences_) {
      if (!fence.late) newest = fence;
    }
  }
  return newest.covers == 0 ? Status() : wait_host(newest);
}

bool Timeline::wait_oldest_free() {
  Fence oldest;
  {
    Lock lock(mutex_);
    if (!find_fence(0, &oldest)) return false;
  }
  return wait_host(oldest).ok();
}

Status Timeline::wait_for(std::uint64_t position) {
  Fence fence;
  {
    Lock lock(mutex_);
    if (position <= passed_.load()) return {};
    if (!find_fence(position, &fence) && !find_fence(position, &fence, true)) fence.covers = 0;
  }
  return fence.covers == 0 ? wait_all() : wait_host(fence);
}

void Timeline::host_waits_for(std::uint64_t position) {
  atomic_max(host_until_, position);
}

bool Timeline::record_use(Lane& lane, EventRef* out) {
  if (broken_.load()) return false;
  const RelaxedCapture relaxed(driver_);
  const CaptureGate::Pass pass(gate_);
  const Fence late{.late = true};  // keeps off the legacy stream, where an event is a barrier
  return record_lane(lane, late, out);
}

bool Timeline::use_over(const EventRef& use) {
  // broken_ first: abandon() sets it last, and what it has abandoned is over only at its end.
  if (broken_.load()) return !abandoned_.load() || ended_.load();
  const ContextUse inside(users_);
  if (!inside) return false;
  Fence fence;
  fence.event = use;
  return query(fence).ok() || broken_.load();
}

Status Timeline::wait_use(const EventRef& use) {
  Fence fence;
  fence.event = use;
  return wait_host(fence);
}

// Any call that needs the context tells of it; this one submits nothing and waits for nothing.
void Timeline::look_for_fault() {
  if (broken_.load()) return;
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  std::size_t free = 0;
  std::size_t total = 0;
  if (current.status().ok() && is_sticky(driver_.mem_get_info(&free, &total)))
    broken_.store(true);
}

Status Timeline::wait_host(const Fence& fence) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  Status status;
  (void)fence.all_of([&](const EventRef& event, const Lane*) {
    status = driver_.event_synchronize(event.handle());
    return status.ok();
  });
  if (!status.ok()) return status;
  Lock lock(mutex_);
  retire(fence.covers);
  return {};
}

void Timeline::retire(std::uint64_t covers) {
  if (covers > passed_.load()) patience_.note_end();
  atomic_max(passed_, covers);
  const auto left = std::find_if(fences_.begin(), fences_.end(), [&](const Fence& fence) {
    return fence.covers > covers;
  });
  fences_.erase(fences_.begin(), left);
  const auto idle = [&](Lane* lane) {
    if (!lane->idle_after(covers)) return false;
    // A hook may have come in between: it raises pending first and looks at active after.
    // Either it sees the lane inactive and takes the lock, or we see it pending and leave the
    // lane active.
    lane->active.store(false);
    if (lane->idle_after(covers)) return true;
    lane->active.store(true);
    return false;
  };
  std::erase_if(active_, idle);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
}

void Timeline::abandon() {
  abandoned_.store(true);
  broken_.store(true);
  events_.abandon();
  Lock lock(mutex_);
  fences_.clear();
  for (Lane* lane : active_)
    lane->active.store(false);
  active_.clear();
  active_count_.store(0);
  for (Lane* lane : host_lanes_)
    lane->host_seen = 0;
  host_lanes_.clear();
  host_outstanding_.store(0);
}

bool Timeline::validate() {
  Lock lock(mutex_);
  std::uint64_t last = passed_.load();
  for (const Fence& fence : fences_) {
    if (fence.covers < last || fence.covers > submitted_.load()) return false;
    last = fence.covers;
  }
  return active_count_.load() == active_.size() && paid_.load() <= submitted_.load();
}

}  // namespace custash
