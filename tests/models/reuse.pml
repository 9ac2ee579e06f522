// SPDX-License-Identifier: MIT
// Reuse and debt in one context, with late fences and one active stream.
//
// Stands for:
//   allocator/order/timeline.cpp: Timeline::enter Timeline::leave
//   allocator/order/timeline.cpp: Timeline::record_free_on Timeline::find_free_event Timeline::wait_free_event Timeline::wait_free_events
//   allocator/order/submissions.hpp: begin count
//   allocator/order/submissions.cpp: Submissions::activate Submissions::retire
//   allocator/order/debt.cpp: Debt::take_debt Debt::pay
//   allocator/order/fence_log.cpp: FenceLog::record_free FenceLog::ensure FenceLog::commit FenceLog::find
//   allocator/order/fence_log.cpp: FenceLog::poll FenceLog::poll_recorded FenceLog::retire
//   allocator/order/fence_log.cpp: FenceLog::wait_frees FenceLog::wait_all FenceLog::wait_patiently
//   allocator/order/stream_state.hpp: idle_after
//   allocator/heap/reuse_after.hpp: forget_order
//   allocator/heap/reuse_after.hpp: accepts
//   allocator/cache/cache_core.hpp: reusable reusable_up_to
//   allocator/cache/fast_path_inline.hpp: FastPath::accepts
//   allocator/cache/cache_core.cpp: CacheCore::reuse_limits
//   allocator/cache/block_search.cpp: BlockSearch::take_across BlockSearch::hand_out
//   allocator/cache/context_cache.cpp: ContextCache::free_slow
//   allocator/cache/freed_blocks.cpp: FreedBlocks::finish
//   allocator/cache/pressure_waits.cpp: PressureWaits::wait_for_frees PressureWaits::wait_for_all_frees
//   allocator/cache/pressure_waits.cpp: PressureWaits::wait_idle
//
// Order: each stream has a clock, how much of each stream its next operation comes after. An event is
// such a clock. There is no device that runs: a kernel that is not ordered after another one may run
// beside it in some schedule, so all schedules are looked at in one state.
//
// Safety: a kernel of a block's owner is ordered after all kernels of former owners, or these are known
// to be over.
// Liveness: the bare twin gets the same calls (one host thread). One kernel may NEED another one, which
// comes later (SETS). A stream that custash holds up behind the first and bare does not, or a wait of the
// host that bare does not make, is a state in which bare can step and custash cannot: an added dead-lock.
//
// Assumptions: atomics are sequentially consistent, as in the source. A region under the timeline's lock
// is one step. An allocation that may not have a block makes new memory, which needs no order: it is
// left out. A lane keeps its newest mark only. Patience: a wait for a kernel that NEEDS another one is given
// up, and every other one succeeds. Fences never fail. No captures, no peers, no host-visible
// work, no legacy stream. Bare: a plain free returns when the device is idle; memory freed on a stream
// comes behind that stream's work to another stream. A block of a stream is used and freed there alone.

#ifndef THREADS
#define THREADS 1
#endif
#ifndef CALLS
#define CALLS 6   // of the program's first thread
#endif
#ifndef CALLS_OF_SECOND
#define CALLS_OF_SECOND 2
#endif
#ifndef WARM
#define WARM 0    // so many kernels run at the start, each on a stream and in a block of its own
#endif
#ifndef TWIN
#define TWIN 1    // bare beside; one host thread only
#endif
#ifndef S
#define S 3       // streams
#endif
#ifndef B
#define B 2       // blocks
#endif
#ifndef STREAMED
#define STREAMED 1  // allocations and frees on streams
#endif
#define F 4             // fences kept
#define NONE 7

// Rules that can be taken out, one at a time (environment, read by check.py's table).
byte removed;
#define debt_not_taken (removed == 1)
#define debt_not_paid (removed == 2)
#define counted_before_driver (removed == 3)
#define covers_read_after_record (removed == 4)
#define lane_of_several (removed == 5)
#define debt_lane_kept (removed == 6)
#define retire_ignores_pending (removed == 7)
#define last_raised_after_pending (removed == 8)
#define late_fence_waited_for (removed == 9)
#define free_takes_late_fence (removed == 10)
#define fence_at_reuse (removed == 11)
#define stream_order_ignored (removed == 12)
#define wait_is_no_submission (removed == 13)
#define pending_raised_late (removed == 14)
#define pressure_waits_for_all (removed == 15)      // not for marks
#define pressure_waits_for_ever (removed == 16)     // no patience
#define plain_memory_freed_at_once (removed == 17)  // the driver waits
#define marks_of_others_count (removed == 18)       // a mark stands for what other streams have freed
#define freed_since_the_mark_counts (removed == 19) // a mark stands for what its stream frees later

// What is known to be open, and expected to be found (docs/semantics.md, known differences).
byte known;
#define known_free_before_return (known == 1)  // freed while its launch has not come back
#define known_two_host_threads (known == 2)    // inherent: memory had before a free's wait is over

#include "device.inc"

// ---- The timeline.
byte submitted, passed, payable, newest, debt;
byte debt_lane = NONE;
bool lock;
byte pending[S], last[S], paid[S];
bool works[S];
byte actives;
byte fences;
byte f_covers[F], f_lane[F];
bool f_late[F];
short f_event[F];
byte mark_number[S];
short mark_event[S];

// ---- Blocks.
#define OWNED 1
#define FREE 0
#define BUSY 2
byte state[B], in_launch[B], used_on[B];
byte stamp_fence[B], stamp_order[B], stamp_lane[B];

byte named_blocks, named_streams;

#define ONE_LANE (actives <= 1)

// ---- Fences, under the lock.

inline find_fence(need) {
  d_step {
    fence_covers = 0;
    i = 0;
    do
    :: i == fences -> break
    :: i < fences ->
      if
      :: (!f_late[i] || late_fence_waited_for) && f_covers[i] >= need ->
        fence_covers = f_covers[i];
        fence_event = f_event[i];
        fence_lane = f_lane[i];
        break
      :: else -> i++
      fi
    od;
    i = 0
  }
}

inline drop_fences(count) {
  k = count;
  i = 0;
  do
  :: i + k < fences ->
    f_covers[i] = f_covers[i + k]; f_lane[i] = f_lane[i + k];
    f_late[i] = f_late[i + k]; f_event[i] = f_event[i + k];
    i++
  :: else -> break
  od;
  do
  :: i < fences -> f_covers[i] = 0; f_lane[i] = 0; f_late[i] = 0; f_event[i] = 0; i++
  :: else -> break
  od;
  fences = fences - k;
  i = 0; k = 0
}

inline commit(late) {
  d_step {
    newest = MAX(newest, covers);
    if :: !late || free_takes_late_fence -> payable = MAX(payable, covers) :: else fi;
    if
    :: covers <= passed -> skip
    :: else ->
      if
      :: !late && ONE_LANE && fences > 0 && f_covers[fences - 1] <= covers -> drop_fences(fences)
      :: else
      fi;
      assert(fences < F);
      i = fences;
      do
      :: i > 0 && f_covers[i - 1] > covers ->
        f_covers[i] = f_covers[i - 1]; f_lane[i] = f_lane[i - 1];
        f_late[i] = f_late[i - 1]; f_event[i] = f_event[i - 1];
        i--
      :: else -> break
      od;
      f_covers[i] = covers; f_lane[i] = lane; f_late[i] = late; f_event[i] = event;
      fences++;
      i = 0
    fi;
    covers = 0; lane = 0; event = 0
  }
}

inline one_active() {
  lane = NONE;
  if
  :: actives == 1 || (lane_of_several && actives > 0) ->
    i = 0;
    do
    :: works[i] -> break
    :: else -> i++
    od;
    lane = i;
    i = 0
  :: else
  fi
}

inline ensure(late) {
  if
  :: need <= passed || need <= (late -> newest : payable) || (free_takes_late_fence && need <= newest)
  :: else ->
    covers = submitted;
    atomic { !lock -> one_active() };
    event = EVENT_NOW;  // the driver's record
    if :: covers_read_after_record -> covers = submitted :: else fi;
    atomic { !lock -> commit(late) }
  fi
}

inline retire(upto) {
  d_step {
    passed = MAX(passed, upto);
    k = 0;
    do
    :: k < fences && f_covers[k] <= upto -> k++
    :: else -> break
    od;
    drop_fences(k);
    do
    :: i < S ->
      if
      :: works[i] && (pending[i] == 0 || retire_ignores_pending) && last[i] <= upto ->
        works[i] = false;
        actives--
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

inline poll_recorded() {
  do
  :: atomic { !lock -> fence_covers = (fences > 0 -> f_covers[0] : 0); fence_event = (fences > 0 -> f_event[0] : 0) };
    if
    :: fence_covers == 0 -> break
    :: fence_covers > 0 && !WITHIN(fence_event, known_over) -> break  // it is not over
    :: fence_covers > 0 && !IS_STUCK(fence_event) ->
      atomic { !lock -> known_over = JOIN(known_over, fence_event); retire(fence_covers) }
    fi
  od;
  fence_covers = 0; fence_event = 0
}

inline wait_host() {  // for fence_event, which covers fence_covers
  assert(!IS_STUCK(fence_event));  // bare does not wait here
  atomic { !lock -> known_over = JOIN(known_over, fence_event); retire(fence_covers) }
}

inline wait_all() {
  need = submitted;
  ensure(true);
  atomic { !lock -> fence_covers = (fences > 0 -> f_covers[fences - 1] : 0); fence_event = (fences > 0 -> f_event[fences - 1] : 0) };
  if :: fence_covers > 0 -> wait_host() :: else fi;
  need = 0; fence_covers = 0; fence_event = 0
}

// ---- Submissions.

inline enter(s) {
  if :: !pending_raised_late -> pending[s]++ :: else fi;
  atomic { !lock -> if :: !works[s] -> works[s] = true; actives++ :: else fi };
  owed = debt;
  if
  :: owed > passed && !debt_not_paid ->
    if
    :: owed > paid[s] && debt_lane != s ->
      owed = debt;
      atomic { !lock -> find_fence(owed) };
      if
      :: owed <= passed
      :: else ->
        if
        :: fence_covers > 0 ->
          submit_wait(s, fence_event);
          paid[s] = MAX(paid[s], fence_covers)
        :: else -> wait_all()
        fi
      fi
    :: else
    fi
  :: else
  fi;
  atomic { owed = 0; fence_covers = 0; fence_event = 0; fence_lane = 0 };
  if :: pending_raised_late -> pending[s]++ :: else fi
}

inline leave(s) {
  if
  :: !counted_before_driver -> atomic { submitted++; number = submitted }
  :: else
  fi;
  if
  :: last_raised_after_pending -> pending[s]--; last[s] = MAX(last[s], number)
  :: else -> last[s] = MAX(last[s], number); pending[s]--
  fi;
  number = 0
}

// Bare, first: its kernel is queued, and runs where nothing holds the stream up.
inline claim_launch() {
  kind = KERNEL;
#if TWIN && THREADS == 1
  if
  :: skip
  :: !bare_needed -> kind = NEEDS; bare_needed = true; if :: !bare_flag -> held_up = held_up | (1 << s) :: else fi
  :: !bare_flag && !IS_UP(s) -> kind = SETS; bare_flag = true; held_up = 0
  fi;
#else
  if
  :: skip
  // The two kernels that need each other, by two host threads.
  :: known_two_host_threads && me == 0 && !bare_needed && !bare_flag ->
    kind = NEEDS; bare_needed = true; held_up = held_up | (1 << s)
  :: known_two_host_threads && me == 1 && bare_needed && !bare_flag && !IS_UP(s) ->
    kind = SETS; bare_flag = true; held_up = 0
  fi;
#endif
  in_launch[b]++;
  used_on[b] = used_on[b] | (1 << s)
}

inline launch() {
  enter(s);
  if :: counted_before_driver -> atomic { submitted++; number = submitted } :: else fi;
  atomic {
    submit_kernel(s);
    kind = 0;
    // Its kernel has told another thread: that one may go on.
    if :: known_free_before_return -> in_launch[b]-- :: else fi
  };
  leave(s);
  if :: !known_free_before_return -> in_launch[b]-- :: else fi
}

// ---- Blocks.

inline free_plain() {
  need = submitted;
  if :: !fence_at_reuse -> ensure(false) :: else fi;
  atomic {
    stamp_fence[b] = need; stamp_order[b] = 0; stamp_lane[b] = NONE;
    used_on[b] = 0;
    state[b] = FREE;
    need = 0
  }
}

inline free_streamed() {
  need = submitted;
  if
  :: need <= passed || mark_number[s] >= need
  :: else ->
    event = clock[s];  // the driver's record, on the stream
    if
    :: atomic { !lock -> mark_number[s] = need; mark_event[s] = event }
    :: ONE_LANE  // small: no event
    fi;
    event = 0
  fi;
  atomic {
    stamp_fence[b] = 0; stamp_order[b] = need; stamp_lane[b] = s;
    used_on[b] = 0;
    state[b] = FREE;
    need = 0
  }
}

inline take_debt() {  // of stamp_fence[b]
  if
  :: debt_not_taken || stamp_fence[b] <= debt
  :: else ->
    if
    :: fence_at_reuse -> need = submitted; ensure(false); need = 0
    :: else
    fi;
    atomic {
      !lock ->
      if
      :: stamp_fence[b] <= passed
      :: else ->
        find_fence(stamp_fence[b]);
        if :: fence_covers == 0 -> fence_lane = NONE :: else fi;
        if
        :: debt > passed && debt_lane != fence_lane && !debt_lane_kept -> fence_lane = NONE
        :: else
        fi;
        lock = true;
        debt_lane = fence_lane
      fi;
      fence_covers = 0; fence_event = 0; fence_lane = 0
    };
    if
    :: lock -> atomic { debt = MAX(debt, stamp_fence[b]); lock = false }
    :: else
    fi
  fi
}

// `s` is NONE for a plain call. Bare makes a stream wait for the one that freed the block, too.
inline allocate() {
  if :: stamp_fence[b] > passed -> take_debt() :: else fi;
  if
  :: stamp_order[b] > passed && stamp_lane[b] != s && !stream_order_ignored ->
    atomic {
      !lock ->
      if
      :: mark_number[stamp_lane[b]] == stamp_order[b] -> fence_covers = 1; mark = mark_event[stamp_lane[b]]
      :: else
      fi;
      has_mark = fence_covers == 1; fence_covers = 0;
      if :: IS_UP(stamp_lane[b]) -> held_up = held_up | (1 << s) :: else fi  // bare, too
    };
    if
    :: has_mark ->
      if :: !wait_is_no_submission -> enter(s) :: else fi;
      submit_wait(s, mark);
      if :: !wait_is_no_submission -> leave(s) :: else fi
    :: else -> wait_all()
    fi;
    atomic { mark = 0; has_mark = false }
  :: else
  fi;
  atomic {
    uses_before[b] = JOIN(uses_before[b], uses[b]);
    uses[b] = 0;
    used_on[b] = (s == NONE -> 0 : (1 << s) | 128);  // its own stream's alone
    state[b] = OWNED
  }
}

// Freed on a stream that is past its newest mark: everybody's.
inline forget_orders(lane_) {
  d_step {
    i = 0;
    do
    :: i < B ->
      if
      :: state[i] == FREE && stamp_order[i] > 0 && (stamp_lane[i] == lane_ || marks_of_others_count) &&
          (stamp_order[i] <= mark_number[lane_] || freed_since_the_mark_counts) ->
        stamp_order[i] = 0; stamp_lane[i] = NONE
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

inline pass_mark(lane_) {
  if
  :: mark_number[lane_] > passed && (!IS_STUCK(mark_event[lane_]) || pressure_waits_for_ever) ->
    assert(!IS_STUCK(mark_event[lane_]));  // bare does not wait here
    known_over = JOIN(known_over, mark_event[lane_]);
    forget_orders(lane_)
  :: else
  fi
}

// An allocation on a full device. Plain frees are waited for as bare has at these; marks of streams and
// the whole device with patience.
inline pressure() {
  if
  :: pressure_waits_for_all -> wait_all()
  :: else ->
    atomic {
      !lock ->
      i = 0;
      do
      :: i < fences -> if :: !f_late[i] -> fence_covers = f_covers[i]; fence_event = f_event[i] :: else fi; i++
      :: else -> break
      od;
      i = 0
    };
    if :: fence_covers > 0 -> wait_host() :: else fi;
    atomic { fence_covers = 0; fence_event = 0 };
#if STREAMED
    pass_mark(0);
    pass_mark(1);
#if S > 2
    pass_mark(2);
#endif
#endif
    skip
  fi
}

// Plain segments go back: the driver waits for the device.
inline pressure_plain() {
  need = submitted;
  ensure(true);
  need = 0;
  if
  :: IS_STUCK(EVENT_NOW) && !plain_memory_freed_at_once
  :: else ->
    assert(!IS_STUCK(EVENT_NOW));  // bare does not wait here
    known_over = JOIN(known_over, EVENT_NOW)
  fi;
  poll_recorded()
}

#if THREADS == 1
#define CALL atomic  // nobody else acts between two of its steps
#define BARE_FREE_RETURNS (held_up == 0)  // where it never does the program is wrong
#else
#define CALL
#define BARE_FREE_RETURNS true
#endif

#define LAUNCH 1
#define FREE_PLAIN 2
#define FREE_STREAMED 3
#define ALLOCATE 4
#define POLL 5      // with a late fence, as where something in limbo has none
#define ASK 6
#define PRESSURE 7
#define PRESSURE_PLAIN 8

// Streams are alike, and so are blocks: each is first named after those before it.
#define MAY_NAME(B_, S_) (named_blocks >= B_ && named_streams >= S_)
#define CHOOSE(what_, B_, S_) what = what_; b = B_; s = S_; \
  if :: S_ < S && B_ < B -> named_blocks = MAX(named_blocks, B_ + 1); named_streams = MAX(named_streams, S_ + 1) :: else fi
#define FREE_FOR(B_, S_, own) (state[B_] == FREE && \
  (stamp_fence[B_] <= passed || stamp_fence[B_] <= debt || stamp_fence[B_] <= payable || fence_at_reuse) && \
  (stamp_order[B_] <= passed || stream_order_ignored || own))
#define PLAIN_CALLS(B_) \
  :: MAY_NAME(B_, 0) && state[B_] == OWNED && in_launch[B_] == 0 && BARE_FREE_RETURNS -> \
    CHOOSE(FREE_PLAIN, B_, 0); state[B_] = BUSY \
  :: FREE_FOR(B_, NONE, false) -> CHOOSE(ALLOCATE, B_, NONE); state[B_] = BUSY
#define LAUNCHES(B_, S_) \
  :: MAY_NAME(B_, S_) && state[B_] == OWNED && (used_on[B_] < 128 || used_on[B_] == ((1 << S_) | 128)) -> \
    CHOOSE(LAUNCH, B_, S_); claim_launch()
#define STREAM_CALLS(B_, S_) \
  :: MAY_NAME(B_, S_) && state[B_] == OWNED && in_launch[B_] == 0 && (used_on[B_] & 127 & ~(1 << S_)) == 0 -> \
    CHOOSE(FREE_STREAMED, B_, S_); state[B_] = BUSY \
  :: MAY_NAME(B_, S_) && FREE_FOR(B_, S_, (stamp_lane[B_] == S_ || mark_number[stamp_lane[B_]] == stamp_order[B_])) -> \
    CHOOSE(ALLOCATE, B_, S_); state[B_] = BUSY

inline choose() {
  if
  PLAIN_CALLS(0)
  LAUNCHES(0, 0)
  LAUNCHES(0, 1)
#if S > 2
  LAUNCHES(0, 2)
#endif
#if STREAMED
  STREAM_CALLS(0, 0)
  STREAM_CALLS(0, 1)
#if S > 2
  STREAM_CALLS(0, 2)
#endif
#endif
#if B > 1
  PLAIN_CALLS(1)
  LAUNCHES(1, 0)
  LAUNCHES(1, 1)
#if S > 2
  LAUNCHES(1, 2)
#endif
#if STREAMED
  STREAM_CALLS(1, 0)
  STREAM_CALLS(1, 1)
#if S > 2
  STREAM_CALLS(1, 2)
#endif
#endif
#endif
  :: submitted > newest -> what = POLL
  :: fences > 0 -> what = ASK
#if THREADS == 1
  :: what = PRESSURE
  :: what = PRESSURE_PLAIN
#endif
  fi
}

proctype Host(byte me; byte left) {
  byte b, s, what, kind, need, covers, lane, number, owed, i, k;
  byte fence_covers, fence_lane;
  short event, fence_event, mark;
  bool has_mark;
  do
  :: CALL {
    atomic { left > 0 -> left--; choose() };
    if
    :: what == LAUNCH -> launch()
    :: what == FREE_PLAIN -> free_plain()
    :: what == FREE_STREAMED -> free_streamed()
    :: what == ALLOCATE -> allocate()
    :: what == POLL -> need = submitted; ensure(true); need = 0; poll_recorded()
    :: what == ASK -> poll_recorded()
    :: what == PRESSURE -> pressure()
    :: what == PRESSURE_PLAIN -> pressure_plain()
    fi;
    atomic { b = 0; s = 0; what = 0 }
    }
  :: atomic { left == 0 -> break }
  od
}

// A kernel runs that uses this block on this stream.
inline at_work(b, s) {
  submitted++;
  works[s] = true; actives++;
  clock[s] = UNIT(s);
  last[s] = submitted;
  uses[b] = UNIT(s); used_on[b] = 1 << s
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    const char* open = getenv("KNOWN");
    now.removed = rule ? atoi(rule) : 0;
    now.known = open ? atoi(open) : 0;
  };
  atomic {
    // Each block belongs to the program at the start.
    state[0] = OWNED;
#if B > 1
    state[1] = OWNED;
#endif
#if WARM > 0
    at_work(0, 0);
#endif
#if WARM > 1
    at_work(1, 1);
#endif
    named_blocks = WARM; named_streams = WARM;
    run Host(0, CALLS);
#if THREADS > 1
    run Host(1, CALLS_OF_SECOND)
#endif
  }
}
