// SPDX-License-Identifier: MIT
// Proved: tests/models/capture.pml, tests/models/ends.pml and tests/models/reuse.pml.
#include "allocator/order/fence_log.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"

#include <algorithm>
#include <thread>

namespace custash {
namespace {

// No more fences than this are kept apart: a wait for one of the others waits for the next
// newer one.
constexpr std::size_t kMaxFences = 64;

// The driver takes about as long for a record.
constexpr int kMostPauses = 64;

// The turn of one thread to record a fence. The others wait for it for some pauses: its fence
// nearly always serves them, too. In the driver they would wait for each other. No thread
// depends on having the turn, or waits for it for long.
class Turn {
 public:
  // `served()`: a fence that has come meanwhile is enough.
  template <typename Served>
  Turn(std::atomic<bool>& taken, Served served) : taken_(taken) {
    for (int pauses = 0; pauses < kMostPauses; ++pauses) {
      mine_ = !taken_.load() && !taken_.exchange(true);
      served_ = served();
      if (mine_ || served_) return;
      pause();
    }
  }

  ~Turn() {
    if (mine_) taken_.store(false);
  }

  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  [[nodiscard]] bool served() const { return served_; }

 private:
  std::atomic<bool>& taken_;
  bool mine_ = false;
  bool served_ = false;
};

}  // namespace

Status FenceLog::record_free(Position* position, FenceKind kind) {
  // With single_stream:off submissions may go unseen: every free counts as one.
  const bool all_seen = config_.single_stream || !holds(Rule::frees_count_where_work_is_unseen);
  *position = all_seen ? submissions_.submitted() : submissions_.count_one();
  return ensure(*position, kind);
}

bool FenceLog::covered(Position need, FenceKind kind) const {
  return need <= (kind == FenceKind::AtFree ? coverable() : newest()) || need <= passed();
}

Status FenceLog::ensure(Position need, FenceKind kind) {
  if (covered(need, kind)) return {};
  const Turn turn(recording_, [&] { return covered(need, kind); });
  if (turn.served()) return {};
  Fence fence;
  fence.kind = kind;
  fence.covers = submissions_.submitted();  // read before the event is recorded
  if (!holds(Rule::fences_cover_what_came_before)) ++fence.covers.count;
  fence.stream_state = submissions_.only_stream();
  const Status status = record(fence);
  if (!status.ok()) {  // without a fence for now: poll() records one later
    if (kind == FenceKind::AtFree) atomic_max(unfenced_, need);
    return events_.note_if_broken(status) ? status : Status();
  }
  recorded_.fetch_add(1);
  commit(std::move(fence));
  return {};
}

Status FenceLog::record(Fence& fence) {
  EventRef event;
  if (events_.has_context_events()) {
    if (const Status status = events_.acquire(&event); !status.ok()) return status;
  }
  const CaptureGate::Pass pass(events_.gate());
  Status status;
  if (events_.may_record_context()) {
    status = events_.record_context(event);
    fence.event = std::move(event);
  }
  if (!events_.has_context_events() || !fence.event) {
    fence.event = EventRef();
    status = record_streams(fence);
  }
  return status;
}

Status FenceLog::record_streams(Fence& fence) {
  const CurrentContext current(events_.driver(), events_.context());
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(events_.driver());
  Fence older;  // covers streams on which nothing can be recorded: destroyed, captured, foreign
  bool needs_older = false;
  for (StreamState* stream_state : submissions_.active_streams()) {
    EventRef event;
    bool under_way = false;
    {
      Lock lock(mutex_);
      // A submission that `covers` counts may not be in `last` yet: it is pending then.
      if (stream_state->idle_after(passed())) continue;
      under_way = stream_state->pending.load() != 0;
      if (stream_state->tail && (stream_state->idle_after(stream_state->tail_covers) ||
                                 !holds(Rule::tails_are_the_newest)))
        event = stream_state->tail;
    }
    if (!event && !events_.record_on_stream(*stream_state, fence.kind, &event)) {
      if (!holds(Rule::fences_cover_every_stream)) continue;
      Lock lock(mutex_);
      const bool covered = !fences_.empty() && stream_state->idle_after(fences_.back().covers);
      if (!covered && !(under_way && fence.covers.none()))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // without a fence for now
      if (!covered && stream_state->tail)
        fence.on_streams.push_back({stream_state->tail, stream_state});
      if (fences_.empty()) continue;
      needs_older = true;
      older = fences_.back();
      continue;
    }
    fence.on_streams.push_back({std::move(event), stream_state});
  }
  if (needs_older) {
    if (older.event) fence.on_streams.push_back({older.event, nullptr});
    fence.on_streams.insert(
        fence.on_streams.end(), older.on_streams.begin(), older.on_streams.end());
  }
  return {};
}

void FenceLog::commit(Fence fence) {
  Lock lock(mutex_);
  CUSTASH_ASSERT(!fence.covers.none() && fence.covers <= submissions_.submitted());
  CUSTASH_ASSERT(coverable() <= newest());
  CUSTASH_ASSERT(fences_.empty() || fences_.back().covers <= newest());
  atomic_max(newest_, fence.covers);
  if (fence.kind == FenceKind::AtFree || !holds(Rule::late_fences_are_only_asked))
    atomic_max(coverable_, fence.covers);
  if (fence.covers <= passed()) return;
  const bool host_waits = host_until_.load() > passed();
  if (fence.kind == FenceKind::AtFree && submissions_.single_stream() &&
      !(host_waits && holds(Rule::fences_stay_for_the_host)) && !fences_.empty() &&
      fences_.back().covers <= fence.covers) {
    // Stream order is the fence. One event is enough to pay with when a second stream comes.
    // The oldest stays: without it nothing would ever be seen to pass in a program that frees
    // more often than its work ends, and blocks of other streams would wait for ever.
    const auto keep =
        holds(Rule::the_oldest_fence_stays) ? std::next(fences_.begin()) : fences_.begin();
    fences_.erase(keep, fences_.end());
  }
  auto at = std::upper_bound(
      fences_.begin(), fences_.end(), fence.covers, [](Position covers, const Fence& f) {
        return covers < f.covers;
      });
  CUSTASH_ASSERT(at == fences_.begin() || std::prev(at)->covers <= fence.covers);
  CUSTASH_ASSERT(at == fences_.end() || fence.covers < at->covers);
  fences_.insert(at, std::move(fence));
  if (fences_.size() > kMaxFences) fences_.erase(fences_.begin() + 1);
  CUSTASH_ASSERT(fences_.size() <= kMaxFences);
  CUSTASH_ASSERT(fences_.front().covers > passed() && fences_.back().covers <= newest());
}

bool FenceLog::find(const Lock& lock, Position need, Fence* out) const {
  return find_any(lock, need, FenceKind::AtFree, out);
}

bool FenceLog::find_any(const Lock& lock, Position need, FenceKind kind, Fence* out) const {
  mutex_.assert_held(lock);
  for (const Fence& fence : fences_) {
    if (fence.kind == FenceKind::Late && kind == FenceKind::AtFree &&
        holds(Rule::late_fences_are_only_asked))
      continue;
    if (fence.covers < need && holds(Rule::fences_cover_the_position)) continue;
    CUSTASH_ASSERT(fence.covers > passed() && fence.covers <= newest());
    CUSTASH_ASSERT(fence.covers <= submissions_.submitted());
    *out = fence;
    return true;
  }
  return false;
}

void FenceLog::poll(Position need) {
  // Fences in the log are queried first: often that is enough, and nothing is recorded.
  for (int round = 0; round < 2 && need > passed(); ++round) {
    if (round == 1 && need > newest())
      ensure(need, FenceKind::Late).ignore();  // broken() reports it
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

void FenceLog::retire(const Lock& lock, Position covers) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(covers <= submissions_.submitted());
  if (covers > passed()) patience_.note_end();
  atomic_max(passed_, covers);
  const auto left = std::find_if(fences_.begin(), fences_.end(), [&](const Fence& fence) {
    return fence.covers > covers;
  });
  CUSTASH_ASSERT(std::none_of(
      left, fences_.end(), [&](const Fence& fence) { return fence.covers <= covers; }));
  fences_.erase(fences_.begin(), left);
  CUSTASH_ASSERT(fences_.empty() || fences_.front().covers > passed());
  submissions_.retire(lock, covers);
}

void FenceLog::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  fences_.clear();
}

// ---- Waits on the host.

Status FenceLog::wait_all() {
  const Position need = submissions_.submitted();
  const auto unfenced = [&] { return need > newest() && need > passed(); };
  // A fence is prevented by a capture or, without context events, by a submission in another
  // thread. Either ends soon. A wait for the device could invalidate the next capture, since
  // nothing keeps the two apart.
  constexpr int kTurns = 100;
  for (int turn = 0; turn < kTurns && (turn == 0 || unfenced()); ++turn) {
    if (turn != 0) std::this_thread::yield();
    if (const Status recorded = ensure(need, FenceKind::Late); !recorded.ok()) return recorded;
  }
  if (unfenced() && events_.capturing()) {
    return holds(Rule::calls_under_way_are_not_waited_for)
               ? wait_returned()
               : Status(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (unfenced() && holds(Rule::unfenced_work_is_waited_for)) {
    if (const Status waited = events_.wait_device(); !waited.ok()) return waited;
    Lock lock(mutex_);
    retire(lock, need);
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

// Beside a capture, this does not wait for the calls that other threads have in the driver:
// none of them comes before this thread's next call.
Status FenceLog::wait_returned() {
  Fence fence{.kind = FenceKind::Late};  // it covers nothing: a call under way may be missing
  {
    const CaptureGate::Pass pass(events_.gate());
    if (const Status recorded = record_streams(fence); !recorded.ok()) return recorded;
  }
  return wait_host(fence);
}

Status FenceLog::wait_frees() {
  Fence newest;
  {
    Lock lock(mutex_);
    for (const Fence& fence : fences_) {
      if (fence.kind == FenceKind::AtFree) newest = fence;
    }
  }
  CUSTASH_ASSERT(newest.kind == FenceKind::AtFree && newest.covers <= coverable());
  return newest.covers.none() ? Status() : wait_host(newest);
}

void FenceLog::wait_unfenced_free() {
  const Position unfenced = unfenced_.load();
  if (unfenced > coverable() && unfenced > passed()) (void)wait_patiently(unfenced);
}

bool FenceLog::wait_oldest_free() {
  Fence oldest;
  {
    Lock lock(mutex_);
    if (!find(lock, Position{}, &oldest)) return false;
  }
  return wait_host(oldest).ok();
}

Status FenceLog::wait_for(Position position) {
  Fence fence;
  {
    Lock lock(mutex_);
    if (position <= passed()) return {};
    if (!find(lock, position, &fence) && !find_any(lock, position, FenceKind::Late, &fence))
      fence.covers = {};
    CUSTASH_ASSERT(fence.covers.none() || fence.covers >= position);
  }
  return fence.covers.none() ? wait_all() : wait_host(fence);
}

Status FenceLog::wait_use(const EventRef& use) {
  Fence fence;
  fence.event = use;
  return wait_host(fence);
}

Status FenceLog::wait_host(const Fence& fence) {
  if (const Status status = events_.synchronize(fence); !status.ok()) return status;
  Lock lock(mutex_);
  retire(lock, fence.covers);
  return {};
}

bool FenceLog::wait_patiently(Position position) {
  if (!holds(Rule::waits_that_bare_does_not_make_end)) return wait_for(position).ok();
  Patience::Wait waiting(patience_);
  for (poll(position); passed() < position; poll(position)) {
    if (events_.broken()) return false;
    // There is nothing to query: a record has failed, or a late one would be a barrier on the
    // legacy stream.
    if (newest() < position && !events_.capturing()) return wait_for(position).ok();
    if (!waiting.go_on()) return false;
  }
  return true;
}

}  // namespace custash
