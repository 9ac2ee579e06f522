// SPDX-License-Identifier: MIT
// The threads' thread caches, the depot and the biased lock, on a weak memory.
//
// Stands for:
//   allocator/base/biased_lock.hpp: enter leave ask give_back announce
//   allocator/base/biased_lock.cpp: BiasedLock::barrier BiasedLock::await BiasedLock::step_back
//   allocator/cache/thread_cache.hpp: ThreadCacheScope
//   allocator/cache/thread_caches.cpp: ThreadCaches::take_used ThreadCaches::give_back
//   allocator/cache/thread_cache_traffic.cpp: ThreadCaches::spill ThreadCaches::restock ThreadCaches::empty_used ThreadCaches::empty
//   allocator/cache/fast_path_inline.hpp: FastPath::hit_small FastPath::put
//   allocator/heap/depot.hpp: put take
//
// Safety: a block is taken from where it is, once; at the end none is lost, and a thread cache that holds one
// says so (`used`), so that nothing is hoarded.
// Liveness: bare has no such lock, so that every thread that stands still for ever is an added dead-lock.
//
// Assumptions. Memory: stores wait in a queue of their thread and leave it in any order, but two to one
// place in theirs, and a release store after all before it. Loads are made in the order of the program.
// That is x86 and more; what ARM adds (loads that pass loads) is not looked at: of the loads here those of
// `asked` and `busy` are at least acquire, and what they guard comes after them. As on ARM an exchange is a release
// store that waits like others, and taking a mutex empties no queue. A seq_cst load comes after the release stores
// before it; so it empties the queue where one waits. Giving a mutex back and
// membarrier empty the queue. membarrier is a fence put into each other thread at some point between
// its call and its return, between any two of that thread's steps. The mutex is the cache's; what it
// alone guards (pool, depot) is plain data. Two threads, each with one thread cache of one class.

#ifndef OPS
#define OPS 3         // of each thread
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef SLOTS
#define SLOTS 1         // of a thread cache
#endif
#ifndef ASYMMETRIC
#define ASYMMETRIC 1  // the kernel has membarrier
#endif
#ifndef Q
#define Q 8             // stores of a thread that wait at once
#endif

byte removed;
#define no_membarrier (removed == 1)
#define no_await (removed == 2)
#define owner_does_not_look (removed == 3)
#define owner_stays_busy (removed == 4)
#define used_cleared_late (removed == 5)
#define leave_is_no_release (removed == 6)
#define looks_before_busy (removed == 7)
#define give_back_is_no_release (removed == 8)
#define asks_after_barrier (removed == 9)
#define count_read_before_lock (removed == 10)
#define asked_is_acquire (removed == 11)
#define busy_is_acquire (removed == 12)

// ---- Memory: six places a thread cache.
#define V 6
#define BUSY(r) ((r) * V)
#define ASKED(r) ((r) * V + 1)
#define USED(r) ((r) * V + 2)
#define COUNT(r) ((r) * V + 3)
#define SLOT(r, i) ((r) * V + 4 + (i))
byte memory[2 * V];
byte waiting[2];
byte q_place[2 * Q], q_value[2 * Q];
bool q_release[2 * Q];

// ---- Where each block really is.
#define IN_POOL 0
#define IN_DEPOT 1
#define IN_HAND 2   // and 3
#define IN_THREAD_CACHE 4   // and 5
byte at[BLOCKS];
bool mutex;
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

inline drain(t) {
  d_step {
    do
    :: waiting[t] > 0 -> drain_one(t, 0)
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

// ---- The owner.

inline announce() {
#if ASYMMETRIC
  store(BUSY(me), 1, false)
#else
  store(BUSY(me), 1, true)  // an exchange
#endif
}

// seq_cst: behind the exchange. With membarrier there is none, and the load may come first.
inline look() {
#if !ASYMMETRIC
  if :: !asked_is_acquire -> drain(me) :: else fi;
#endif
  load(x, ASKED(me))
}

inline leave() { store(BUSY(me), 0, !leave_is_no_release) }

inline await_nobody_asks() {
  do
  :: load(x, ASKED(me));
    if
    :: x == 0 -> break
    :: else -> drain(me); memory[ASKED(me)] == 0  // spins; it gives the processor away
    fi
  od
}

inline enter() {
  if :: looks_before_busy -> load(x, ASKED(me)) :: else fi;
  announce();
  if :: !looks_before_busy -> look() :: else fi;
  do
  :: x != 0 && !owner_does_not_look ->
    if :: !owner_stays_busy -> leave() :: else fi;
    await_nobody_asks();
    announce();
    look()
  :: else -> break
  od;
  x = 0;
  store(USED(me), 1, false)
}

inline take_hit() {
  if :: count_read_before_lock -> load(n, COUNT(me)) :: else fi;
  enter();
  if :: !count_read_before_lock -> load(n, COUNT(me)) :: else fi;
  if
  :: n > 0 ->
    load(b, SLOT(me, n - 1));
    store(COUNT(me), n - 1, false);
    atomic { assert(at[b] == IN_THREAD_CACHE + me); at[b] = IN_HAND + me }
  :: else
  fi;
  leave();
  n = 0; b = 0
}

inline find_in_hand() {
  b = 0;
  do
  :: b < BLOCKS && at[b] != IN_HAND + me -> b++
  :: else -> break
  od
}

// A free: into the thread cache; where it is full half of it goes to the depot first.
inline give_hit() {
  enter();
  load(n, COUNT(me));
  if
  :: n < SLOTS ->
    d_step { find_in_hand(); at[b] = IN_THREAD_CACHE + me };
    store(SLOT(me, n), b, false);
    store(COUNT(me), n + 1, false)
  :: else ->
    load(b, SLOT(me, 0));
#if SLOTS == 2
    load(x, SLOT(me, 1));
    store(SLOT(me, 0), x, false);
#endif
    store(COUNT(me), SLOTS - 1, false);
    atomic { assert(at[b] == IN_THREAD_CACHE + me); at[b] = IN_HAND + me };
    leave();
    lock_mutex();
    at[b] = IN_DEPOT;
    unlock_mutex();
    enter()
  fi;
  leave();
  n = 0; b = 0; x = 0
}

inline lock_mutex() { atomic { !mutex -> mutex = true } }

inline unlock_mutex() { atomic { drain(me); mutex = false } }

inline find_at(where) {
  b = 0;
  do
  :: b < BLOCKS && at[b] != where -> b++
  :: else -> break
  od
}

inline restock() {
  lock_mutex();
  enter();
  load(n, COUNT(me));
  d_step { find_at(IN_DEPOT); if :: n == 0 && b < BLOCKS -> at[b] = IN_THREAD_CACHE + me :: else fi };
  if
  :: n == 0 && b < BLOCKS ->
    store(SLOT(me, 0), b, false);
    store(COUNT(me), 1, false)
  :: else
  fi;
  leave();
  unlock_mutex();
  n = 0; b = 0
}

inline empty_thread_cache(r) {
  load(n, COUNT(r));
  do
  :: n > 0 ->
    n--;
    store(COUNT(r), n, false);
    load(b, SLOT(r, n));
    atomic { assert(at[b] == IN_THREAD_CACHE + r); at[b] = IN_POOL }
  :: else -> break
  od;
  b = 0
}

inline ask() { store(ASKED(other), 1, true) }  // an exchange

// An allocation that found nothing: all thread caches are emptied, then the pool is searched.
inline take_slow() {
  lock_mutex();
  load(u, USED(other));
  if
  :: u != 0 ->
    if :: !asks_after_barrier -> ask() :: else fi;
#if ASYMMETRIC
    if :: !no_membarrier -> drain(me); drain(other) :: else fi;
#endif
    if :: asks_after_barrier -> ask() :: else fi;
    if
    :: no_await
    :: else ->
      if :: !busy_is_acquire -> drain(me) :: else fi;
      memory[BUSY(other)] == 0  // spins
    fi;
    if :: !used_cleared_late -> store(USED(other), 0, false) :: else fi;
    empty_thread_cache(other);
    store(ASKED(other), 0, !give_back_is_no_release);
    if :: used_cleared_late -> drain(me); store(USED(other), 0, false) :: else fi
  :: else
  fi;
  load(u, USED(me));
  if
  :: u != 0 -> store(USED(me), 0, false); empty_thread_cache(me)
  :: else
  fi;
  d_step {
    find_at(IN_DEPOT);
    if :: b == BLOCKS -> find_at(IN_POOL) :: else fi;
    if :: b < BLOCKS -> at[b] = IN_HAND + me :: else fi
  };
  unlock_mutex();
  n = 0; b = 0; u = 0
}

#define HOLDS_ONE(t) (at[0] == IN_HAND + t || at[BLOCKS - 1] == IN_HAND + t)

proctype Thread(byte me) {
  byte left = OPS, other = 1 - me, x, n, b, u, j;
  do
  :: left > 0 ->
    left--;
    if
    :: true -> take_hit()
    :: HOLDS_ONE(me) -> give_hit()
    :: true -> restock()
    :: true -> take_slow()
    fi
  :: left == 0 -> break
  od;
  atomic {
    drain(me);
    finished++;
    if
    :: finished == 2 ->
      assert(memory[BUSY(0)] == 0 && memory[BUSY(1)] == 0);
      assert(memory[COUNT(0)] == (at[0] == IN_THREAD_CACHE -> 1 : 0) + (BLOCKS > 1 && at[BLOCKS - 1] == IN_THREAD_CACHE -> 1 : 0));
      assert(memory[COUNT(1)] == (at[0] == IN_THREAD_CACHE + 1 -> 1 : 0) + (BLOCKS > 1 && at[BLOCKS - 1] == IN_THREAD_CACHE + 1 -> 1 : 0));
      assert(memory[COUNT(0)] == 0 || memory[USED(0)] == 1);
      assert(memory[COUNT(1)] == 0 || memory[USED(1)] == 1)
    :: else
    fi
  }
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    // A block lies in the first thread's thread cache, that thread holds another one.
    at[0] = IN_THREAD_CACHE;
    at[BLOCKS - 1] = IN_HAND;
    memory[COUNT(0)] = 1;
    memory[USED(0)] = 1;
    run Memory(0);
    run Memory(1);
    run Thread(0);
    run Thread(1)
  }
}
