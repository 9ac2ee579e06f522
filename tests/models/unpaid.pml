// SPDX-License-Identifier: MIT
// A hit that takes debt, beside a peer whose kernels pay none, on a weak memory.
//
// Stands for:
//   allocator/cache/fast_path_inline.hpp: FastPath::accepts
//   allocator/cache/cache_core.hpp: must_be_over
//   allocator/cache/peer_access.hpp: unpaid add_reader
//   allocator/cache/peer_grants.cpp: PeerGrants::add_accessor
//   allocator/cache/thread_caches.cpp: ThreadCaches::take_used
//   allocator/order/debt.cpp: Debt::take_debt
//   allocator/order/owners.hpp: host_may_hand_over
//
// Safety: where a thread hands out memory in debt and sees no such peer, the thread that lets the peer in sees the
// debt, and waits for it before the peer's kernels run.
//
// Assumptions. Memory: as in thread_cache.pml. Stores wait in a queue of their thread, the write of an exchange as well,
// and leave it in any order, but a release store after all before it. A seq_cst load comes after the release
// and seq_cst stores before it, a weaker load need not. Loads are made in the order of the program. The takers'
// biased locks are free: the granter empties a thread cache only if it sees `used`, and waits then until its owner
// is out (thread_cache.pml proves that). Owners::host_may_hand_over() loads its places as unpaid() does.

#ifndef TAKERS
#define TAKERS 2
#endif
#define GRANTER TAKERS
#define THREADS (TAKERS + 1)
#define Q 4

byte removed;
#define unpaid_is_relaxed (removed == 1)
#define unpaid_stored_relaxed (removed == 2)
#define debt_read_relaxed (removed == 3)
#define debt_taken_relaxed (removed == 4)
#define asks_before_taking (removed == 5)
#define granter_does_not_wait (removed == 6)

// ---- Memory.
#define OWED 0
#define UNPAID 1
#define USED(t) (2 + (t))
#define BUSY(t) (2 + TAKERS + (t))
#define PLACES (2 + 2 * TAKERS)
byte memory[PLACES];
byte waiting[THREADS];
byte q_place[THREADS * Q], q_value[THREADS * Q];
bool q_release[THREADS * Q];

bool handed[TAKERS];  // out in debt
bool settled;         // the granter has waited for the debt
byte finished;

inline drain_one(t, i) {
  memory[q_place[t * Q + i]] = q_value[t * Q + i];
  waiting[t]--;
  j = i;
  do
  :: j < waiting[t] ->
    q_place[t * Q + j] = q_place[t * Q + j + 1];
    q_value[t * Q + j] = q_value[t * Q + j + 1];
    q_release[t * Q + j] = q_release[t * Q + j + 1];
    j++
  :: else -> break
  od;
  q_place[t * Q + j] = 0; q_value[t * Q + j] = 0; q_release[t * Q + j] = 0;
  j = 0
}

// Before a seq_cst load: the last release store, and so all before it, reaches the memory first.
inline order() {
  d_step {
    n = waiting[me];
    do
    :: n > 0 && !q_release[me * Q + n - 1] -> n--
    :: else -> break
    od;
    do
    :: n > 0 -> drain_one(me, 0); n--
    :: else -> break
    od
  }
}

inline store(place, value, release) {
  d_step {
    waiting[me] < Q;
    q_place[me * Q + waiting[me]] = place;
    q_value[me * Q + waiting[me]] = value;
    q_release[me * Q + waiting[me]] = release;
    waiting[me]++
  }
}

inline load(out, place) {
  d_step {
    j = waiting[me];
    do
    :: j > 0 && q_place[me * Q + j - 1] != place -> j--
    :: else -> break
    od;
    out = (j > 0 -> q_value[me * Q + j - 1] : memory[place]);
    j = 0
  }
}

// One of the stores that wait reaches the memory: any that none before it holds back.
proctype Memory(byte t) {
  byte i, j, k;
  bool held;
end:
  do
  :: atomic {
    waiting[t] > 0 ->
    i = 0;
    do
    :: i + 1 < waiting[t] -> i++
    :: break
    od;
    held = q_release[t * Q + i] && i > 0;
    k = 0;
    do
    :: k < i -> held = held || q_place[t * Q + k] == q_place[t * Q + i]; k++
    :: else -> break
    od;
    k = 0;
    if
    :: !held -> drain_one(t, i)
    :: else -> held = false
    fi;
    i = 0
  }
  od
}

// ---- A hit, in the thread's own cache.
proctype Taker(byte me) {
  byte j, n, x, unpaid;
  store(BUSY(me), 1, false);
  store(USED(me), 1, false);
  if
  :: asks_before_taking -> order(); load(unpaid, UNPAID)
  :: else
  fi;
  order();
  load(x, OWED);
  if
  :: x == 0 -> store(OWED, 1, !debt_taken_relaxed)
  :: else
  fi;
  if
  :: asks_before_taking
  :: !asks_before_taking && unpaid_is_relaxed -> load(unpaid, UNPAID)
  :: !asks_before_taking && !unpaid_is_relaxed -> order(); load(unpaid, UNPAID)
  fi;
  handed[me] = unpaid == 0;
  store(BUSY(me), 0, true);
  atomic { waiting[me] == 0 -> finished++ }
}

// ---- Access is given to a peer that pays for nothing.
proctype Granter(byte me) {
  byte j, n, x, t;
  store(UNPAID, 1, !unpaid_stored_relaxed);
  do
  :: t < TAKERS ->
    load(x, USED(t));
    if
    :: x != 0 -> d_step { n = 0; do :: n < waiting[me] -> drain_one(me, 0) :: else -> break od };
      d_step { n = 0; do :: waiting[t] > 0 -> drain_one(t, 0) :: else -> break od };
      memory[BUSY(t)] == 0
    :: else
    fi;
    t++
  :: else -> break
  od;
  if :: !debt_read_relaxed -> order() :: else fi;
  load(x, OWED);
  settled = x != 0 && !granter_does_not_wait;
  atomic { waiting[me] == 0 -> finished++ };
  finished == THREADS;
  for (t : 0 .. TAKERS - 1) {
    assert(!handed[t] || settled)
  }
}

init {
  byte t;
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    for (t : 0 .. THREADS - 1) {
      run Memory(t)
    }
    for (t : 0 .. TAKERS - 1) {
      run Taker(t)
    }
    run Granter(GRANTER)
  }
}
