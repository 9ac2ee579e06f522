// SPDX-License-Identifier: MIT
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/order/debt.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"

#include <algorithm>

namespace custash {

std::uint64_t Debt::clear() const {
  return std::max(fences_.passed(), paid());
}

bool Debt::find(std::uint64_t position, Fence* out) {
  Lock lock(mutex_);
  return fences_.find(lock, position, out);
}

void Debt::take_debt(std::uint64_t fence) {
  if (fence <= owed()) return;  // a wait for it is due already
  Lock lock(mutex_);
  if (fence <= clear()) return;
  Fence found;
  const Lane* lane = fences_.find(lock, fence, &found) ? found.lane : nullptr;
  const bool outstanding = owed() > clear();
  if (outstanding && lane_.load() != lane) lane = nullptr;
  lane_.store(lane);
  atomic_max(owed_, fence);
}

void Debt::pay_now() {
  if (owed() > paid()) pay(nullptr);
}

// Each stream waits before its own next submission, rather than the context at once. The driver
// keeps all events and waits of a whole context in one queue: its wait for an old fence would
// wait for the newest.
void Debt::pay(Lane* lane) {
  const bool with_the_fence_of_the_free = holds(Rule::debt_is_paid_with_the_fence_of_the_free);
  if (!with_the_fence_of_the_free)
    fences_.ensure(submissions_.stamp_everything(), FenceKind::AtFree).ignore();
  const std::uint64_t debt =
      with_the_fence_of_the_free ? owed() : submissions_.stamp_everything();
  Fence fence;
  if (!find(debt, &fence)) fence.covers = 0;
  if (debt <= fences_.passed()) return;
  note_wait();
  if (lane == nullptr) {
    if (fence.covers != 0 && events_.wait_context(fence)) atomic_max(paid_, fence.covers);
  } else if (fence.covers != 0 && events_.wait_stream(lane->stream, lane, fence)) {
    atomic_max(lane->paid, fence.covers);
  } else if (holds(Rule::unpayable_debt_is_waited_for)) {
    // The GPU cannot be made to wait. The host waits, as the program's free would have waited
    // without custash, and for that work only.
    (fence.covers != 0 ? fences_.wait_host(fence) : fences_.wait_all())
        .ignore();  // broken() tells
  }
}

// Payments inside this context do not count for a stream of another.
void Debt::pay_on(CUstream stream) {
  const std::uint64_t debt = owed();
  if (debt <= fences_.passed()) return;
  Fence fence;
  if (!find(debt, &fence)) return;
  note_wait();
  const bool waited = events_.wait_stream(stream, nullptr, fence);
  if (!waited && holds(Rule::debt_abroad_is_waited_for)) fences_.wait_host(fence).ignore();
}

}  // namespace custash
