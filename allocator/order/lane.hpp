// SPDX-License-Identifier: MIT
// Lane: a stream on which work has been submitted. It is active from before a submission until
// a fence recorded after its last one has passed. Its counters are atomic: the submission hooks
// write them without a lock. Never destroyed: stamps and fences point to it.
//
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/base/units.hpp"
#include "allocator/order/event.hpp"

#include <array>
#include <atomic>
#include <deque>

namespace custash {

struct Pool;

// An event on a stream, recorded at position `number` of the context.
struct Mark {
  std::uint64_t number = 0;
  EventRef event;
};

class Lane {
 public:
  explicit Lane(CUstream stream) : stream(stream) {}

  // Not null: a stream of this green context, which shares its primary's memory and timeline.
  CUcontext green = nullptr;
  CUstream stream;  // normalised: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for the default ones

  // Submissions under way into the driver. Counted before the call: the driver may have the
  // work already, and the lane must not be taken for idle.
  std::atomic<std::uint32_t> pending{0};
  // The number of its last submission, counted when the driver has it.
  std::atomic<std::uint64_t> last{0};
  // In the list of active lanes (Submissions). Written under the timeline's lock.
  std::atomic<bool> active{false};
  // This stream alone waits for the fences up to here: see Debt::pay().
  std::atomic<std::uint64_t> paid{0};
  // As `paid`, for other contexts (Owners) whose memory its kernels reach.
  static constexpr std::size_t kOwners = 16;
  std::array<std::atomic<std::uint64_t>, kOwners> paid_abroad{};
  // The debt at its last launch in full order: see Allocator::order_wanted().
  std::atomic<std::uint64_t> in_full_order{0};
  // The number of the newest of `marks`.
  std::atomic<std::uint64_t> marked{0};
  // The newest mark known to have passed: any stream may reuse blocks freed on this one up to
  // there.
  std::atomic<std::uint64_t> over{0};
  // Its stream was destroyed: no event can be recorded on it any more.
  std::atomic<bool> orphan{false};

  // Guarded by the timeline's lock:
  EventRef tail;  // recorded after its last submission, where only its owner could
  std::uint64_t tail_covers = 0;  // what `tail` covers
  std::deque<Mark> marks;         // events recorded at frees on this stream, oldest first
  EventRef host_event;            // after its last submission that the host can see
  std::uint64_t host_seen = 0;    // the number of that submission; 0 when none is outstanding

  // Guarded by the cache's lock: the pool of calls that name this stream, and the highest
  // position of a block freed on it.
  Pool* pool = nullptr;
  Pool* lender = nullptr;  // the other pool that it took memory from last
  std::uint64_t stamped = 0;

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

  // Whether the lane is idle, given that every submission up to number `passed` is over.
  [[nodiscard]] bool idle_after(std::uint64_t passed) const {
    // pending first: a submission raises `last` before it lowers `pending`.
    return (pending.load() == 0 || !holds(Rule::streams_with_a_call_under_way_work)) &&
           last.load() <= passed;
  }
};

}  // namespace custash
