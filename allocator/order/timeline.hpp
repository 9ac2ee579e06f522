// SPDX-License-Identifier: MIT
// Timeline: the ordering rule of one context. It counts submissions, records fences at frees,
// knows which have passed, and which debt the next submission has to pay.
//
// A position on it is a count of submissions that the driver has. A fence `covers` the count
// read before it was recorded: when it has passed, every submission up to there is over. A
// block freed at count c is safe once a fence with covers >= c has passed, or was waited for by
// all later work.
//
// Own lock (rank Timeline), never held across a driver call.
// Proved: tests/models/ends.pml.
// decision 01, decision 03
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/calls_under_way.hpp"
#include "allocator/order/capture_gate.hpp"
#include "allocator/order/context_users.hpp"
#include "allocator/order/fence.hpp"
#include "allocator/order/patience.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

namespace custash {

class Timeline {
 public:
  Timeline(const Driver& driver, const Config& config, CUcontext context, CaptureGate& gate);

  // ---- Submissions (hooks). enter() before the driver call: marks the lane active, pays debt
  // due on it. leave() after it: only now the submission counts.
  void enter(Lane& lane);
  void leave(Lane& lane, bool host_visible);

  // Around both, for a kernel that the host may hand memory while it runs: no wait of a stream
  // holds it back any more. Begins before any debt is looked at.
  void reaching_begins(CallsUnderWay::Call& call) { call.begin(reaching_); }

  void reaching_done(CallsUnderWay::Call& call);

  // Such a kernel may run. A later free has waited for it: only an earlier one's memory can be
  // owed then. (Not with free:never, where a wait for what is owed could be for that kernel.)
  [[nodiscard]] bool host_may_hand_over() const {
    return (reaching_.any() ||
            (reached_until_.load() > passed_.load() && host_visible_outstanding())) &&
           config_.free_mode != FreeMode::Never && !broken();
  }

  // There is one lane more: what enter() and leave() note of it needs no memory then.
  void expect_lanes(std::size_t count);
  // The stream is about to be destroyed: keeps what its work must be waited for by.
  void orphan(Lane& lane);
  // Makes an orphan the lane of a new stream; false while its work is not over.
  bool adopt(Lane& lane, CUstream stream);

  // ---- Frees.
  // A position for a block freed now, with a fence recorded for it (one for all frees between
  // two submissions). Fails only when the context itself is broken. `Late` where bare CUDA
  // would not have waited for this context: then no stream ever waits for that fence.
  Status stamp_free(std::uint64_t* stamp, FenceKind kind = FenceKind::AtFree);

  // The same without a driver call: false when a fence would have to be recorded.
  [[gnu::always_inline]] bool try_stamp_free(std::uint64_t* stamp) const {
    *stamp = submitted_.load();
    return config_.one_lane && (*stamp <= payable_.load() || *stamp <= passed_.load() ||
                                !holds(Rule::quick_frees_have_a_fence));
  }

  // A position for a block freed on a stream. While other streams work too, or the block is
  // large, it is marked by an event, which others can wait for.
  std::uint64_t stamp_stream(Lane& lane, bool large);
  // The same without a driver call or a lock: false where one is needed.
  bool try_stamp_stream(const Lane& lane, bool large, std::uint64_t* stamp) const;
  // An event behind a free of another context's memory on a stream of this one.
  bool record_free_abroad(Lane& lane, EventRef* out);
  // The host waits for this position (a pinned buffer): fences before it are kept apart.
  void host_waits_for(std::uint64_t position);

  // An event behind what a stream holds now, for the host to ask; false where none can be had:
  // the stream captures, or is another thread's.
  bool record_use(Lane& lane, EventRef* out);
  bool use_over(const EventRef& use);
  Status wait_use(const EventRef& use);

  // A position behind everything submitted so far; nothing is recorded.
  [[nodiscard]] std::uint64_t stamp_everything() const { return submitted_.load(); }

  // The same; work that goes unseen is counted, too.
  std::uint64_t stamp_now() {
    return config_.one_lane ? submitted_.load() : submitted_.fetch_add(1) + 1;
  }

  // Waits for submissions whose effect the host could see, and only for those. A kernel that
  // reaches the host may have told this thread of itself before its launch has returned.
  Status wait_host_visible();

  [[nodiscard, gnu::always_inline]] bool host_visible_outstanding() const {
    return host_outstanding_.load() != 0 || host_unmarked_.load() != 0;
  }

  [[nodiscard, gnu::always_inline]] bool host_visible_expected() const {
    return reaching_.any() && holds(Rule::frees_wait_for_launches_that_reach_the_host);
  }

  // ---- ReuseLimits.
  [[nodiscard]] std::uint64_t passed() const { return passed_.load(); }

  [[nodiscard]] std::uint64_t newest() const { return newest_.load(); }

  [[nodiscard]] bool one_lane() const { return config_.one_lane && active_count_.load() <= 1; }

  [[nodiscard]] bool unfinished() const { return submitted_.load() > passed_.load(); }

  [[nodiscard]] bool capturing() const { return gate_.capturing(); }

  [[nodiscard]] bool broken() const { return broken_.load(); }

  // Fences up to here cost nothing: passed, or waited for by all later work.
  [[nodiscard, gnu::always_inline]] std::uint64_t clear() const {
    return std::max(passed_.load(), paid_.load());
  }

  // Fences up to here can be paid for by a wait.
  [[nodiscard]] std::uint64_t payable() const { return payable_.load(); }

  // Fences up to here are owed: the next submission pays, whoever else has memory from under
  // them.
  [[nodiscard]] std::uint64_t owed() const { return debt_.load(); }

  // ---- Reuse.
  // A block with this fence position was handed out before the fence passed: the next
  // submission on a stream that is not in order behind it pays.
  void take_debt(std::uint64_t fence);
  // Pays now, on all streams (config one_lane:off).
  void pay_now();
  // The event at exactly this position of a stream, if one was recorded.
  bool find_mark(const Lane& lane, std::uint64_t number, EventRef* out);
  // Makes one stream wait for a mark of another, or the host where it captures; false when the
  // driver refuses.
  bool wait_mark(Lane& lane, const EventRef& mark);
  // Makes one stream of another context wait for what is owed here (a copy between contexts).
  void pay_on(CUstream stream);
  // Asks the driver which fences have passed.
  // `need`: the highest position somebody waits for; where nothing covers it a fence is
  // recorded late, good for asking only.
  void poll(std::uint64_t need);
  // Waits for the whole context, like the driver's own free.
  Status wait_device();
  // Waits on the host until everything submitted so far is over.
  Status wait_all();
  // The same up to the newest fence recorded at a free: for nothing that bare CUDA would not
  // have waited for.
  Status wait_frees();
  // The same for the oldest of them; false where there is none.
  bool wait_oldest_free();
  // The same up to the first fence that covers this position of a free.
  Status wait_for(std::uint64_t position);
  // For work that bare would not wait for: false when patience has run out.
  bool wait_patiently(std::uint64_t position);
  // So for the newest marks of these: Lane::over.
  void pass_marks(const std::vector<Lane*>& lanes);

  Patience& patience() { return patience_; }

  // ---- Captures: before the driver begins one; around a wait that may draw the stream into
  // one, and when it has: then it was no submission.
  void prepare_capture();
  void wait_begins(Lane& lane);
  void wait_done(Lane& lane);

  struct Counters {
    std::uint64_t fences, queries, waits, host_waits;
  };

  [[nodiscard]] Counters counters() const;
  // Some call has told the program of a fault on the device: was it here?
  void look_for_fault();

  // Who asks or waits here for a call that the program made for another context.
  ContextUsers& users() { return users_; }

  // The context is about to go, and its events with it: nothing is asked or recorded any more.
  void abandon();

  // The driver has ended it: what it held has run or never will.
  void end() { ended_.store(true); }

  [[nodiscard]] bool abandoned() const { return abandoned_.load(); }

  // As the host sees it, without asking the driver.
  [[nodiscard]] bool over(std::uint64_t position) const {
    return passed() >= position || ended_.load() || (broken() && !abandoned());
  }

  void reset_lock_after_fork() {
    mutex_.reset_after_fork();
    reaching_.reset_after_fork();
  }

  bool validate();

 private:
  Status ensure(std::uint64_t need, FenceKind kind);
  Status record(Fence& fence);
  Status record_lanes(Fence& fence);
  [[nodiscard]] bool stream_captures(const Lane& lane) const;
  bool record_lane(Lane& lane, const Fence& fence, EventRef* event);
  void commit(Fence fence);
  void activate(Lane& lane);
  void retire(std::uint64_t covers) REQUIRES(mutex_);
  void pay(Lane* lane);
  bool wait_context(const Fence& fence);
  bool wait_stream(CUstream stream, const Lane* lane, const Fence& fence);
  bool find_fence(std::uint64_t need, Fence* out, bool late_too = false) REQUIRES(mutex_);
  Status query(const Fence& fence);
  bool poll_recorded();
  Status wait_host(const Fence& fence);
  Status wait_returned();
  void note_host_visible(Lane& lane, std::uint64_t number);
  bool note_tail(Lane& lane, std::uint64_t number);
  [[nodiscard]] bool in_order(bool large) const;
  bool record_after(const Lane& lane, const EventRef& event);
  bool record_whole(const EventRef& event);
  [[nodiscard]] bool is_gone(CUresult code) const;

  const Driver& driver_;
  const Config& config_;
  const CUcontext context_;
  std::atomic<bool> context_events_;  // false: too old a driver, or it answered "not supported"
  EventPool events_;
  ContextUsers users_;

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> newest_{0};   // covers of the newest fence
  std::atomic<std::uint64_t> payable_{0};  // covers of the newest fence that is not late
  std::atomic<std::uint64_t> passed_{0};
  std::atomic<std::uint64_t> paid_{0};
  std::atomic<std::uint64_t> debt_{0};
  std::atomic<const Lane*> debt_lane_{
      nullptr};  // in order behind all outstanding debt by itself
  std::atomic<std::uint32_t> active_count_{0};
  std::atomic<std::uint32_t> host_outstanding_{0};
  std::atomic<std::uint64_t> host_unmarked_{0};  // latest visible work without an event
  CallsUnderWay reaching_;                       // see reaching_begins()
  std::atomic<std::uint64_t> reached_until_{0};
  CaptureGate& gate_;  // of all contexts: a capture may draw in streams of any
  Patience patience_;
  std::atomic<bool> broken_{false};
  std::atomic<std::uint64_t> host_until_{0};
  std::atomic<bool> abandoned_{false}, ended_{false};
  std::atomic<std::uint64_t> fences_made_{0}, queries_{0}, waits_{0}, host_waits_{0};

  Mutex mutex_{LockRank::Timeline};
  std::vector<Fence> fences_ GUARDED_BY(mutex_);  // by rising `covers`, none passed
  std::vector<Lane*> active_ GUARDED_BY(mutex_);
  std::vector<Lane*> host_lanes_ GUARDED_BY(mutex_);  // with host_seen != 0
};

}  // namespace custash
