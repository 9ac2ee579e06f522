// SPDX-License-Identifier: MIT
// Timeline: the ordering rule of one context. It counts submissions, records fences at frees,
// knows which have passed, and which debt the next submission has to pay.
//
// A position on it is a count of submissions that the driver has. A fence `covers` the count
// read before it was recorded: when it has passed, every submission up to there is over. A
// block freed at count c is safe once a fence with covers >= c has passed, or once all later
// work waits for such a fence.
//
// Each part keeps its own data and is described in its own header. The timeline hands out its
// parts, and adds the calls that need several of them.
//
// One lock for all parts (rank Timeline), never held across a driver call.
// Proved: tests/models/ends.pml.
// decision 01, decision 03
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/order/debt.hpp"
#include "allocator/order/host_visible_work.hpp"

#include <vector>

namespace custash {

class Timeline {
 public:
  Timeline(const Driver& driver,
           const Config& config,
           CUcontext context,
           CaptureGate& gate,
           SleepGate& sleep_gate);

  // ---- The parts.
  ContextEvents& events() { return events_; }

  Submissions& submissions() { return submissions_; }

  FenceLog& fences() { return fences_; }

  Debt& debt() { return debt_; }

  HostVisibleWork& host_work() { return host_work_; }

  // ---- Submissions (hooks). enter() before the driver call marks the stream active and pays
  // the debt due on it. leave() after the call: only now the submission counts.
  void enter(StreamState& stream_state);
  void leave(StreamState& stream_state, Results results);

  // ---- Sleep. After Submissions::bar(): whether no work is left and no call is under way.
  bool idle_behind_bar();

  // ---- Streams. There is one more of them: enter() and leave() then allocate nothing for it.
  void expect_streams(std::size_t count);
  // The stream is about to be destroyed. Keeps an event to wait for its work by.
  void orphan(StreamState& stream_state);
  // Makes an orphan the state of a new stream; false while its work is not over.
  bool adopt(StreamState& stream_state, CUstream stream);

  // A kernel may run that the host may hand memory meanwhile. A later free has waited for it,
  // so only an earlier free's memory can be owed then. (Not with free:never, where a wait for
  // what is owed could be for that kernel.)
  [[nodiscard]] bool host_may_hand_over() const {
    return host_work_.may_reach(fences_.passed()) && config_.free_mode != FreeMode::Never &&
           !events_.broken();
  }

  // ---- Frees. As record_free(), without a driver call: false where a fence would have to be
  // recorded.
  [[gnu::always_inline]] bool try_record_free(Position* position) const {
    *position = submissions_.submitted();
    return config_.single_stream &&
           (*position <= fences_.coverable() || *position <= fences_.passed() ||
            !holds(Rule::quick_frees_have_a_fence));
  }

  // A position for a block freed on a stream. While other streams work too, or if the block is
  // large, an event is recorded there, which other streams can wait for.
  Position record_free_on(StreamState& stream_state, SizeKind kind);
  // As record_free_on(), without a driver call or a lock: false where one is needed.
  bool try_record_free_on(const StreamState& stream_state,
                          SizeKind kind,
                          Position* position) const;

  // ---- Reuse. The event at exactly this position of a stream, if one was recorded.
  bool find_free_event(const StreamState& stream_state, Position position, EventRef* out);
  // Makes one stream wait for a free event of another, or the host where the stream captures.
  // False: the driver refuses.
  bool wait_free_event(StreamState& stream_state, const EventRef& event);
  // Waits with patience for the newest free event of each of these streams: see
  // StreamState::over.
  void wait_free_events(const std::vector<StreamState*>& stream_states);

  // ---- Captures. Before the driver begins one.
  void prepare_capture();
  // Around a wait that may draw the stream into one. If it has, the wait was no submission.
  void wait_begins(StreamState& stream_state);
  void wait_done(StreamState& stream_state);

  // The context is about to end, and its events with it: nothing is queried or recorded.
  void abandon();
  void reset_lock_after_fork();
  bool validate();

 private:
  bool note_tail(StreamState& stream_state, Position number);
  [[nodiscard]] bool in_order(SizeKind kind) const;
  bool reuse_free_event(const Lock& lock, StreamState& stream_state, Position number);
  void add_free_event(const Lock& lock, StreamState& stream_state, const FreeEvent& free_event);

  const Config& config_;
  ContextEvents events_;
  Submissions submissions_;
  FenceLog fences_;
  Debt debt_;
  HostVisibleWork host_work_;
  Mutex mutex_{LockRank::Timeline};
};

}  // namespace custash
