// SPDX-License-Identifier: MIT
// Peers and several contexts: context 0 has the memory and the streams 0 and 2; context 1 has stream 1,
// whose kernels, copies and graphs reach that memory.
//
// Stands for:
//   allocator/order/owners.hpp: add pay
//   allocator/order/debt.cpp: Debt::pay_on
//   allocator/order/timeline.cpp: Timeline::enter
//   allocator/submission.cpp: pay_for Submission::Submission Allocator::peer_access_enabled
//   allocator/cache/peer_grants.cpp: PeerGrants::add_accessor
//   allocator/cache/cache_core.cpp: CacheCore::debt_allowed
//   allocator/cache/cache_core.hpp: reusable reusable_up_to
//   allocator/fast_path.cpp: Allocator::free
//   allocator/registry.cpp: wait_for_others
//
// Order, safety, liveness: as in reuse.pml (clocks; a former owner's kernels come first; bare beside).
//
// Assumptions: those of reuse.pml, and: context 1's own timeline has no memory here, and its frees'
// fences are left out. Bare's free waits for the block's device only: work of another device in the
// block is waited for by the program before it frees. With SAME_DEVICE both contexts are on one device.
// With NO_PLACE the reader reaches more contexts than are told apart, so that nothing is had in debt.

#ifndef CALLS
#define CALLS 6      // of the program's first thread
#endif
#ifndef CALLS_OF_SECOND
#define CALLS_OF_SECOND 0
#endif
#ifndef NO_PLACE
#define NO_PLACE 0
#endif
#ifndef SAME_DEVICE
#define SAME_DEVICE 0
#endif
#ifndef WARM
#define WARM 0       // peer access, and a kernel that runs in block 0, at the start
#endif
#ifndef B
#define B 2
#endif
#define S 3
#define F 5
#define NONE 7
#define PEER 1       // context 1's stream

byte removed;
#define peers_do_not_pay (removed == 1)
#define paid_here_counts_abroad (removed == 2)
#define pays_abroad_once (removed == 3)
#define owed_not_waited_for (removed == 4)
#define hand_outs_not_waited_for (removed == 5)
#define debt_in_spite_of_peers (removed == 6)
#define owed_taken_for_settled (removed == 7)
#define copies_do_not_pay (removed == 8)
#define graphs_pay_here_only (removed == 9)
#define free_waits_here_only (removed == 10)
#define flag_set_after_wait (removed == 11)

byte known;

#include "device.inc"

// ---- Context 0's timeline.
byte submitted, passed, payable, debt;
byte paid[S], paid_abroad;
byte fences;
byte f_covers[F];
short f_event[F];

// ---- Peers.
bool access, known_owner, unpaid_peers;
bool in_hand_out;   // a thread is in a hand-out: the lock of its thread cache, or the cache's

#define OWNED 1
#define FREE 0
#define BUSY 2
byte state[B], in_launch[B];
byte stamp_fence[B];

inline find_fence(need) {
  d_step {
    fence_covers = 0;
    i = 0;
    do
    :: i == fences -> break
    :: i < fences ->
      if
      :: f_covers[i] >= need -> fence_covers = f_covers[i]; fence_event = f_event[i]; break
      :: else -> i++
      fi
    od;
    i = 0
  }
}

inline retire(upto) {
  d_step {
    passed = MAX(passed, upto);
    k = 0;
    do
    :: k < fences && f_covers[k] <= upto -> k++
    :: else -> break
    od;
    i = 0;
    do
    :: i + k < fences -> f_covers[i] = f_covers[i + k]; f_event[i] = f_event[i + k]; i++
    :: else -> break
    od;
    do
    :: i < fences -> f_covers[i] = 0; f_event[i] = 0; i++
    :: else -> break
    od;
    fences = fences - k;
    i = 0; k = 0
  }
}

inline ask() {
  atomic { fence_covers = (fences > 0 -> f_covers[0] : 0); fence_event = (fences > 0 -> f_event[0] : 0) };
  if
  :: fence_covers > 0 && (WITHIN(fence_event, known_over) || !IS_STUCK(fence_event)) ->
    atomic { known_over = JOIN(known_over, fence_event); retire(fence_covers) }
  :: else
  fi;
  atomic { fence_covers = 0; fence_event = 0 }
}

inline wait_for(position) {
  atomic {
    if
    :: position > passed -> find_fence(position); assert(fence_covers > 0)
    :: else
    fi
  };
  if
  :: fence_covers > 0 ->
    assert(!IS_STUCK(fence_event));  // bare had waited at the free
    atomic { known_over = JOIN(known_over, fence_event); retire(fence_covers) }
  :: else
  fi;
  atomic { fence_covers = 0; fence_event = 0 }
}

// A stream of context 0.
inline enter(s) {
  owed = debt;
  if
  :: owed > passed && owed > paid[s] ->
    find_fence(owed);
    if
    :: fence_covers > 0 -> submit_wait(s, fence_event); paid[s] = MAX(paid[s], fence_covers)
    :: else
    fi
  :: else
  fi;
  atomic { owed = 0; fence_covers = 0; fence_event = 0 }
}

inline pay_on() {
  owed = debt;
  if
  :: owed > passed ->
    find_fence(owed);
    if :: fence_covers > 0 -> submit_wait(PEER, fence_event) :: else fi
  :: else
  fi;
  atomic { owed = 0; fence_covers = 0; fence_event = 0 }
}

inline owners_pay() {
  seen = debt;
  if
  :: !known_owner || peers_do_not_pay || seen <= paid_abroad || seen <= passed
  :: paid_here_counts_abroad && seen <= MAX(paid[0], paid[2])
  :: pays_abroad_once && paid_abroad > 0
  :: else ->
    pay_on();
    paid_abroad = MAX(paid_abroad, seen)
  fi;
  seen = 0
}

#define LAUNCH 1
#define FREE_IT 2
#define ALLOCATE 3
#define ASK 4
#define ENABLE 5
#define COPY 6
#define GRAPH 7
#define OVER_THERE 8   // the program waits for context 1's stream

#if CALLS_OF_SECOND == 0
#define CALL atomic
#define BARE_FREE_RETURNS (held_up == 0)
#define TWIN 1
#else
#define CALL
#define BARE_FREE_RETURNS true
#define TWIN 0
#endif

inline claim() {
  kind = KERNEL;
#if TWIN
  if
  :: true
  :: !bare_needed -> kind = NEEDS; bare_needed = true; if :: !bare_flag -> held_up = held_up | (1 << s) :: else fi
  :: !bare_flag && !IS_UP(s) -> kind = SETS; bare_flag = true; held_up = 0
  fi;
#endif
  in_launch[b]++
}

inline launch() {
  if
  :: s == PEER ->
    if
    :: what == COPY -> if :: !copies_do_not_pay -> pay_on() :: else fi
    :: what == GRAPH -> if :: !graphs_pay_here_only -> pay_on() :: else fi
    :: else -> owners_pay()
    fi
  :: else -> enter(s)
  fi;
  submit_kernel(s);
  kind = 0;
  if :: s != PEER -> submitted++ :: else fi;
  in_launch[b]--
}

// No kernel of the other device is at work in it, as far as the program knows, or bare waits.
#define FREED_RIGHTLY(b) (SAME_DEVICE || AT(uses[b], PEER) <= AT(known_over, PEER))

inline free_it() {
#if SAME_DEVICE
  // Bare waits for the whole device, and so does the wait for others.
  if
  :: !free_waits_here_only ->
    assert(stuck[PEER] == 0);
    known_over = JOIN(known_over, clock[PEER])
  :: else
  fi;
#endif
  need = submitted;
  if
  :: need <= payable || need <= passed
  :: else ->
    // All of context 0, and what its streams come after.
    event = JOIN(clock[0], clock[2]);
    atomic {
      payable = need;
      assert(fences < F);
      f_covers[fences] = need; f_event[fences] = event;
      fences++
    }
  fi;
  atomic { stamp_fence[b] = need; state[b] = FREE; need = 0; event = 0 }
}

#define DEBT_ALLOWED (!unpaid_peers || debt_in_spite_of_peers)
#define SETTLED(p) (p <= passed || (p <= debt && (!unpaid_peers || owed_taken_for_settled)))

inline allocate() {
  // In its thread cache, or under the cache's lock: decided, then the debt is taken.
  if :: hand_outs_not_waited_for -> true :: else -> atomic { !in_hand_out -> in_hand_out = true } fi;
  may = SETTLED(stamp_fence[b]) || (DEBT_ALLOWED && stamp_fence[b] <= payable);
  if
  :: may && stamp_fence[b] > passed -> debt = MAX(debt, stamp_fence[b])
  :: else
  fi;
  if :: !hand_outs_not_waited_for -> in_hand_out = false :: else fi;
  atomic {
    if
    :: may -> uses_before[b] = JOIN(uses_before[b], uses[b]); uses[b] = 0; state[b] = OWNED
    :: else -> state[b] = FREE
    fi;
    may = false
  }
}

inline enable() {
#if NO_PLACE
  if :: flag_set_after_wait -> true :: else -> unpaid_peers = true fi;
  if :: !hand_outs_not_waited_for -> !in_hand_out :: else fi;
  if :: !owed_not_waited_for -> wait_for(debt) :: else fi;
  unpaid_peers = true;
#else
  known_owner = true;
#endif
  access = true
}

#define LAUNCHES(B_) \
  :: me == 0 && state[B_] == OWNED -> what = LAUNCH; b = B_; s = 0; claim() \
  :: me == 0 && state[B_] == OWNED && clock[0] > 0 -> what = LAUNCH; b = B_; s = 2; claim() \
  :: access && state[B_] == OWNED -> what = LAUNCH; b = B_; s = PEER; claim() \
  :: !access && TWIN && state[B_] == OWNED -> what = COPY; b = B_; s = PEER; claim() \
  :: !access && TWIN && state[B_] == OWNED -> what = GRAPH; b = B_; s = PEER; claim() \
  :: me == 0 && state[B_] == OWNED && in_launch[B_] == 0 && BARE_FREE_RETURNS && FREED_RIGHTLY(B_) -> \
    what = FREE_IT; b = B_; state[B_] = BUSY \
  :: me == 0 && state[B_] == FREE && (stamp_fence[B_] <= passed || stamp_fence[B_] <= payable) -> \
    what = ALLOCATE; b = B_; state[B_] = BUSY

proctype Host(byte me; byte left) {
  byte b, s, what, kind, need, owed, seen, i, k, fence_covers;
  short event, fence_event;
  bool may;
  do
  :: CALL {
    atomic {
      left > 0 -> left--;
      if
      LAUNCHES(0)
#if B > 1
      LAUNCHES(1)
#endif
      :: fences > 0 -> what = ASK
      :: !access && (me == 1 || TWIN) -> what = ENABLE
      :: TWIN && stuck[PEER] == 0 && !WITHIN(clock[PEER], known_over) -> what = OVER_THERE
      fi
    };
    if
    :: what == LAUNCH || what == COPY || what == GRAPH -> launch()
    :: what == FREE_IT -> free_it()
    :: what == ALLOCATE -> allocate()
    :: what == ASK -> ask()
    :: what == ENABLE -> enable()
    :: what == OVER_THERE -> known_over = JOIN(known_over, clock[PEER])
    fi;
    atomic { b = 0; s = 0; what = 0 }
    }
  :: atomic { left == 0 -> break }
  od
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    const char* open = getenv("KNOWN");
    now.removed = rule ? atoi(rule) : 0;
    now.known = open ? atoi(open) : 0;
  };
  atomic {
    state[0] = OWNED;
#if B > 1
    state[1] = OWNED;
#endif
#if WARM
    access = true; known_owner = true;
    clock[0] = UNIT(0); submitted = 1; uses[0] = UNIT(0);
#endif
    run Host(0, CALLS);
#if CALLS_OF_SECOND
    run Host(1, CALLS_OF_SECOND)
#endif
  }
}
