// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml and tests/models/sleep.pml.
#include "allocator/order/submissions.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/thread.hpp"

#include <algorithm>

namespace custash {

void Submissions::activate(StreamState& stream_state) {
  while (!try_activate(stream_state)) {
    stream_state.pending.fetch_sub(1);  // the thread that closed the gate waits for that
    sleep_gate_.pass();
    stream_state.pending.fetch_add(1);
  }
}

bool Submissions::try_activate(StreamState& stream_state) {
  Lock lock(mutex_);
  if (barred_ && !sleep_gate_.closed()) bar(lock, false);
  if (barred_ && holds(Rule::submissions_wait_for_their_memory)) return false;
  CUSTASH_ASSERT(active_count_.load() == active_.size());
  CUSTASH_ASSERT(barred_ || std::count(active_.begin(), active_.end(), &stream_state) ==
                                (stream_state.active.load() ? 1 : 0));
  if (stream_state.active.load()) return true;
  if (!barred_ || std::count(active_.begin(), active_.end(), &stream_state) == 0)
    active_.push_back(&stream_state);
  stream_state.active.store(true);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
  return true;
}

void Submissions::bar() {
  Lock lock(mutex_);
  bar(lock, true);
}

void Submissions::bar(const Lock& lock, bool barred) {
  mutex_.assert_held(lock);
  barred_ = barred;
  for (StreamState* stream_state : active_)
    stream_state->active.store(!barred);
}

bool Submissions::idle_behind_bar(const Lock& lock) const {
  mutex_.assert_held(lock);
  return barred_ && active_.empty();
}

void Submissions::note_thread() {
  const void* first = nullptr;
  const bool is_first = first_thread_.compare_exchange_strong(first, this_thread());
  if (!is_first && first != this_thread()) several_threads_.store(true);
}

const StreamState* Submissions::only_stream() {
  if (!config_.single_stream) return nullptr;
  Lock lock(mutex_);
  const bool alone =
      active_.size() == 1 || !(active_.empty() || holds(Rule::one_stream_alone_is_in_order));
  return alone ? active_.front() : nullptr;
}

std::vector<StreamState*> Submissions::active_streams() {
  Lock lock(mutex_);
  return active_;
}

void Submissions::expect(const Lock& lock, std::size_t stream_states) {
  mutex_.assert_held(lock);
  active_.reserve(std::max(stream_states, active_.capacity()));
}

void Submissions::retire(const Lock& lock, Position covers) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(active_count_.load() == active_.size());
  const bool barred = barred_;
  const auto idle = [&](StreamState* stream_state) {
    CUSTASH_ASSERT(barred || stream_state->active.load());
    CUSTASH_ASSERT(counted(stream_state->last.load()));
    if (!stream_state->idle_after(covers)) return false;
    // A hook may come in between: it raises `pending` first and reads `active` after. Either it
    // sees the stream inactive and takes the lock, or we see it pending and leave the stream
    // active.
    stream_state->active.store(false);
    if (stream_state->idle_after(covers)) return true;
    stream_state->active.store(!barred);
    return false;
  };
  std::erase_if(active_, idle);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
}

void Submissions::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(active_count_.load() == active_.size());
  for (StreamState* stream_state : active_)
    stream_state->active.store(false);
  active_.clear();
  active_count_.store(0);
}

}  // namespace custash
