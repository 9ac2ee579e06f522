// SPDX-License-Identifier: MIT
// FenceLog: waits on the host.
// Proved: tests/models/capture.pml, tests/models/ends.pml and tests/models/reuse.pml.
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/fence_log.hpp"

#include <thread>

namespace custash {

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
