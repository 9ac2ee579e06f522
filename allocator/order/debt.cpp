// SPDX-License-Identifier: MIT
// Proved: tests/models/peers.pml, tests/models/reuse.pml and tests/models/unpaid.pml.
#include "allocator/order/debt.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"

namespace custash {

bool Debt::find(Position position, Fence* out) {
  Lock lock(mutex_);
  return fences_.find(lock, position, out);
}

void Debt::take_debt(Position position) {
  CUSTASH_ASSERT(submissions_.counted(paid()) && submissions_.counted(owed()));
  if (position <= owed()) return;  // a wait for it is due already
  Lock lock(mutex_);
  if (position <= done_or_paid()) return;
  CUSTASH_ASSERT(position <= submissions_.submitted());
  CUSTASH_ASSERT(position <= fences_.coverable());
  Fence found;
  const StreamState* stream_state =
      fences_.find(lock, position, &found) ? found.stream_state : nullptr;
  const bool outstanding = owed() > done_or_paid();
  if (outstanding && stream_state_.load() != stream_state) stream_state = nullptr;
  stream_state_.store(stream_state);
  atomic_max(owed_, position);
  CUSTASH_ASSERT(submissions_.counted(owed()));
}

void Debt::pay_now() {
  if (owed() > paid()) pay(nullptr);
}

// Each stream waits before its own next submission, rather than the context at once. The driver
// keeps all events and waits of a whole context in one queue: its wait for an old fence would
// wait for the newest.
void Debt::pay(StreamState* stream_state) {
  const bool with_the_fence_of_the_free = holds(Rule::debt_is_paid_with_the_fence_of_the_free);
  if (!with_the_fence_of_the_free)
    fences_.ensure(submissions_.submitted(), FenceKind::AtFree).ignore();
  const Position debt = with_the_fence_of_the_free ? owed() : submissions_.submitted();
  Fence fence;
  if (!find(debt, &fence)) fence.covers = {};
  CUSTASH_ASSERT(fence.covers.none() || fence.covers >= debt);
  if (debt <= fences_.passed()) return;
  note_wait();
  if (stream_state == nullptr) {
    if (!fence.covers.none() && events_.wait_context(fence)) atomic_max(paid_, fence.covers);
  } else if (!fence.covers.none() &&
             events_.wait_stream(stream_state->stream, stream_state, fence)) {
    atomic_max(stream_state->paid, fence.covers);
  } else if (holds(Rule::unpayable_debt_is_waited_for)) {
    // The GPU cannot be made to wait. The host waits, as the program's free would have waited
    // without custash, and for that work only.
    (!fence.covers.none() ? fences_.wait_host(fence) : fences_.wait_all())
        .ignore();  // broken() reports it
  }
  CUSTASH_ASSERT(submissions_.counted(paid()));
}

// Payments inside this context do not count for a stream of another.
void Debt::pay_on(CUstream stream) {
  const Position debt = owed();
  if (debt <= fences_.passed()) return;
  Fence fence;
  if (!find(debt, &fence)) return;
  CUSTASH_ASSERT(fence.covers >= debt && fence.kind == FenceKind::AtFree);
  note_wait();
  const bool waited = events_.wait_stream(stream, nullptr, fence);
  if (!waited && holds(Rule::debt_abroad_is_waited_for)) fences_.wait_host(fence).ignore();
}

}  // namespace custash
