// SPDX-License-Identifier: MIT
// Timeline: the ordering rule of one context. It counts submissions, records fences at frees,
// knows which have passed, and which debt the next submission has to pay.
//
// A position on it is a count of submissions that the driver has. A fence `covers` the count
// read before it was recorded: when it has passed, every submission up to there is over. A
// block freed at count c is safe once a fence with covers >= c has passed, or once all later
// work waits for such a fence.
//
// Each part keeps its own data and is described in its own header. The timeline offers their
// calls to others, and adds those that need several parts.
//
// One lock for all parts (rank Timeline), never held across a driver call.
// Proved: tests/models/ends.pml.
// decision 01, decision 03
#pragma once

#include "allocator/order/debt.hpp"
#include "allocator/order/host_visible_work.hpp"

#include <algorithm>
#include <vector>

namespace custash {

class Timeline : private ContextEvents,
                 private Submissions,
                 private FenceLog,
                 private Debt,
                 private HostVisibleWork {
 public:
  Timeline(const Driver& driver, const Config& config, CUcontext context, CaptureGate& gate);

  using ContextEvents::broken, ContextEvents::abandoned, ContextEvents::capturing,
      ContextEvents::end, ContextEvents::look_for_fault, ContextEvents::users,
      ContextEvents::record_free_abroad, ContextEvents::record_use, ContextEvents::use_over,
      ContextEvents::wait_device;
  using Debt::owed, Debt::pay_now, Debt::pay_on, Debt::take_debt;
  using FenceLog::host_waits_for, FenceLog::newest, FenceLog::over, FenceLog::passed,
      FenceLog::patience, FenceLog::payable, FenceLog::poll, FenceLog::stamp_free,
      FenceLog::unfinished, FenceLog::wait_all, FenceLog::wait_for, FenceLog::wait_frees,
      FenceLog::wait_oldest_free, FenceLog::wait_patiently, FenceLog::wait_use;
  using HostVisibleWork::host_visible_expected, HostVisibleWork::host_visible_outstanding,
      HostVisibleWork::reaching_begins, HostVisibleWork::reaching_done,
      HostVisibleWork::wait_host_visible;
  using Submissions::one_lane, Submissions::stamp_everything, Submissions::stamp_now;

  // ---- Submissions (hooks). enter() before the driver call marks the lane active and pays the
  // debt due on it. leave() after the call: only now the submission counts.
  void enter(Lane& lane);
  void leave(Lane& lane, bool host_visible);

  // ---- Lanes. There is one more of them: enter() and leave() then allocate nothing for it.
  void expect_lanes(std::size_t count);
  // The stream is about to be destroyed. Keeps an event to wait for its work by.
  void orphan(Lane& lane);
  // Makes an orphan the lane of a new stream; false while its work is not over.
  bool adopt(Lane& lane, CUstream stream);

  // A kernel may run that the host may hand memory meanwhile. A later free has waited for it,
  // so only an earlier free's memory can be owed then. (Not with free:never, where a wait for
  // what is owed could be for that kernel.)
  [[nodiscard]] bool host_may_hand_over() const {
    return may_reach(passed()) && config_.free_mode != FreeMode::Never && !broken();
  }

  // ---- Frees. As stamp_free(), without a driver call: false where a fence would have to be
  // recorded.
  [[gnu::always_inline]] bool try_stamp_free(std::uint64_t* stamp) const {
    *stamp = stamp_everything();
    return config_.one_lane && (*stamp <= payable() || *stamp <= passed() ||
                                !holds(Rule::quick_frees_have_a_fence));
  }

  // A position for a block freed on a stream. While other streams work too, or if the block is
  // large, an event is recorded there, which other streams can wait for.
  std::uint64_t stamp_stream(Lane& lane, bool large);
  // As stamp_stream(), without a driver call or a lock: false where one is needed.
  bool try_stamp_stream(const Lane& lane, bool large, std::uint64_t* stamp) const;

  // ---- Reuse. Fences up to here cost nothing: passed, or waited for by all later work.
  [[nodiscard, gnu::always_inline]] std::uint64_t clear() const {
    return std::max(passed(), paid());
  }

  // The event at exactly this position of a stream, if one was recorded.
  bool find_mark(const Lane& lane, std::uint64_t number, EventRef* out);
  // Makes one stream wait for a mark of another, or the host where the stream captures. False:
  // the driver refuses.
  bool wait_mark(Lane& lane, const EventRef& mark);
  // Waits with patience for the newest mark of each of these lanes: see Lane::over.
  void pass_marks(const std::vector<Lane*>& lanes);

  // ---- Captures. Before the driver begins one.
  void prepare_capture();
  // Around a wait that may draw the stream into one. If it has, the wait was no submission.
  void wait_begins(Lane& lane);
  void wait_done(Lane& lane);

  struct Counters {
    std::uint64_t fences, queries, waits, host_waits;
  };

  [[nodiscard]] Counters counters() const;

  // The context is about to end, and its events with it: nothing is queried or recorded.
  void abandon();
  void reset_lock_after_fork();
  bool validate();

 private:
  bool note_tail(Lane& lane, std::uint64_t number);
  [[nodiscard]] bool in_order(bool large) const;

  const Config& config_;
  Mutex mutex_{LockRank::Timeline};
};

}  // namespace custash
