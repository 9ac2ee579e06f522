// SPDX-License-Identifier: MIT
// StreamState: a stream on which work has been submitted. It is active from before a submission
// until a fence recorded after its last one has passed. Its counters are atomic: the submission
// hooks write them without a lock. Never destroyed: freed blocks and fences point to it.
//
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/fifo.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/units.hpp"
#include "allocator/order/event.hpp"
#include "allocator/order/position.hpp"

#include <array>
#include <atomic>

namespace custash {

struct Pool;

// An event recorded at a free on its stream, or at an earlier one, since which the stream has
// done nothing.
struct FreeEvent {
  Position position;
  EventRef event;
  Position recorded;  // the position of that earlier free
};

class StreamState {
 public:
  explicit StreamState(CUstream stream) : stream(stream) {}

  // Not null: a stream of this green context, which shares its primary's memory and timeline.
  CUcontext green = nullptr;
  CUstream stream;  // normalised: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for the default ones

  // Submissions under way into the driver. Counted before the call: the driver may have the
  // work already, and the stream must not be taken for idle.
  std::atomic<std::uint32_t> pending{0};
  // The number of its last submission, counted when the driver has it.
  std::atomic<Position> last{};
  // In the list of active streams (Submissions). Written under the timeline's lock.
  std::atomic<bool> active{false};
  // This stream alone waits for the fences up to here: see Debt::pay().
  std::atomic<Position> paid{};
  // As `paid`, for other contexts (Owners) whose memory its kernels reach.
  static constexpr std::size_t kOwners = 16;
  std::array<std::atomic<Position>, kOwners> paid_abroad{};
  // The debt at its last launch in full order: see Submission::order_wanted().
  std::atomic<Position> in_full_order{};
  // The position of the newest of `free_events`.
  std::atomic<Position> newest_free_event{};
  // The newest free event known to have passed: any stream may reuse blocks freed on this one
  // up to there.
  std::atomic<Position> over{};
  // Its stream was destroyed: no event can be recorded on it any more.
  std::atomic<bool> orphan{false};

  // Guarded by the timeline's lock:
  EventRef tail;         // recorded after its last submission, where only its owner could
  Position tail_covers;  // what `tail` covers
  Fifo<FreeEvent> free_events;  // events recorded at frees on this stream, oldest first
  EventRef host_event;          // after its last submission that the host can see
  Position host_seen;           // the number of that submission; 0 when none is outstanding

  // Guarded by the cache's lock: the pool of calls that name this stream, and the highest
  // position of a block freed on it.
  Pool* pool = nullptr;
  Pool* lender = nullptr;  // the other pool that it took memory from last
  Position last_free;

  [[nodiscard]] bool is_per_thread() const { return stream == CU_STREAM_PER_THREAD; }

  // Its handle means another stream in other threads, or with another context current.
  [[nodiscard]] bool is_named_by_user() const {
    return is_per_thread() || (green != nullptr && stream == CU_STREAM_LEGACY);
  }

  // No event can be recorded on it later: another thread's stream, or one where an event is a
  // barrier for blocking streams.
  [[nodiscard]] bool is_default() const {
    return is_per_thread() || stream == CU_STREAM_LEGACY;
  }

  // Whether the stream is idle, given that every submission up to number `passed` is over.
  [[nodiscard]] bool idle_after(Position passed) const {
    // pending first: a submission raises `last` before it lowers `pending`.
    return (pending.load() == 0 || !holds(Rule::streams_with_a_call_under_way_work)) &&
           last.load() <= passed;
  }
};

}  // namespace custash
