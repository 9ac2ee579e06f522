// SPDX-License-Identifier: MIT
// Waits of a Timeline for work that bare CUDA would not wait for in the same call.
// Proved: tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/order/timeline.hpp"

namespace custash {

bool Timeline::wait_patiently(std::uint64_t position) {
  if (!holds(Rule::waits_that_bare_does_not_make_end)) return wait_for(position).ok();
  Patience::Wait waiting(patience_);
  for (poll(position); passed_.load() < position; poll(position)) {
    if (broken()) return false;
    // Nothing can be asked: a record has failed, and on the legacy stream a late one is a
    // barrier.
    if (newest_.load() < position && !capturing()) return wait_for(position).ok();
    if (!waiting.go_on()) return false;
  }
  return true;
}

void Timeline::pass_marks(const std::vector<Lane*>& lanes) {
  Patience::Wait waiting(patience_);
  for (Lane* lane : lanes) {
    Mark mark;
    {
      Lock lock(mutex_);
      if (lane->marks.empty()) continue;
      mark = lane->marks.back();
    }
    Fence alone;
    alone.event = mark.event;
    Status status = query(alone);
    while (status.code() == CUDA_ERROR_NOT_READY && waiting.go_on())
      status = query(alone);
    if (!status.ok()) continue;
    patience_.note_end();
    atomic_max(lane->over, mark.number);
  }
}

bool Timeline::record_free_abroad(Lane& lane, EventRef* out) {
  if (broken()) return false;
  const RelaxedCapture relaxed(driver_);
  return events_.take(out).ok() && record_after(lane, *out);
}

}  // namespace custash
