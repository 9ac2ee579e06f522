// SPDX-License-Identifier: MIT
// The sleep gate: two contexts with a stream each, of which the second is made meanwhile. Threads
// submit, one puts the process to sleep again and again, one needs the mapping or captures, and
// at last the process ends. Who finds the process asleep wakes it.
//
// Stands for:
//   allocator/order/sleep_gate.hpp: hold let_go held
//   allocator/order/sleep_gate.cpp: SleepGate::pass SleepGate::change
//   allocator/order/submissions.cpp: Submissions::activate Submissions::try_activate Submissions::bar Submissions::retire
//   allocator/order/timeline.cpp: Timeline::idle_behind_bar Timeline::leave
//   allocator/sleep/standstill.cpp: Standstill::begin Standstill::close Standstill::wait_until_idle Standstill::leave_asleep
//   allocator/sleep/sleep.cpp: Attempt::run Attempt::save
//   allocator/sleep/state.cpp: Sleep::wake_within
//   allocator/sleep/waking.cpp: wake_up
//   allocator/registry.cpp: cache
//
// Safety: no submission, no work on the device, no call that needs the mapping and no capture meets
// memory that is away or not whole. Contents are copied out when no work runs and no call is under
// way, and nothing is written between the copy and the end of the memory. One thread wakes.
// Liveness: a thread that stands still for ever is a dead-lock. So waking ends, and so does the process.
//
// A process that sleeps in part gives a further portion.
//
// Assumptions: atomics are sequentially consistent. A wait for an atomic returns when it has been
// notified since. Kernels end: patience runs out elsewhere, where the sleeper may give up at any step.
// A neighbour may take the room on the device while the memory is away, and keep it. Then the
// process waits until it ends. Reading the contents may fail once.

#ifndef OPS
#define OPS 2     // of the first submitting thread; the other has one
#endif
#ifndef SLEEPS
#define SLEEPS 2
#endif

byte removed;
#define submissions_do_not_ask (removed == 1)
#define nothing_barred (removed == 2)
#define work_not_waited_for (removed == 3)
#define calls_not_waited_for (removed == 4)
#define pending_raised_late (removed == 5)
#define opened_before_contents (removed == 6)
#define looks_before_counting (removed == 7)
#define holders_not_waited_for (removed == 8)
#define reopened_without_notify (removed == 9)
#define capture_asked_first (removed == 10)
#define capture_does_not_pass (removed == 11)
#define two_wake (removed == 12)
#define pending_kept_at_gate (removed == 13)
#define made_without_look (removed == 14)
#define listed_before_closing (removed == 15)
#define end_does_not_hold (removed == 16)
#define failed_copy_taken_for_done (removed == 17)
#define waking_not_given_up (removed == 18)
#define failed_portion_opens (removed == 19)

#define AWAKE 0
#define GOING 1
#define ASLEEP 2
#define WAKING 3

// ---- The gate.
byte gate, holders;
byte waiting;  // the threads that wait for a change

// ---- The timelines. One stream each.
bool exists[2], barred[2], busy[2], listed[2], locked[2];
byte pending[2], runs[2];
byte captures;

// ---- The device.
#define AWAY 0
#define EMPTY 1
#define WHOLE 2
byte memory = WHOLE;
bool dirty, room = true, read_error = true;
byte in_driver, wakers, done;

// ---- The end of the process.
bool ending, gave_up, over;

#define THERE (memory == WHOLE || gave_up)
#define BIT(me) (1 << (me))

inline notify() { waiting = 0 }

inline pass(me) {
  do
  :: gate == AWAKE -> break
  :: atomic { gate == ASLEEP && !two_wake -> gate = WAKING; notify() }; wake_up()
  :: gate == ASLEEP && two_wake -> atomic { gate = WAKING; notify() }; wake_up()
  :: atomic { gate == GOING || gate == WAKING -> waiting = waiting | BIT(me) };
    (waiting & BIT(me)) == 0
  od
}

inline wake_up() {
  atomic { assert(wakers == 0); wakers++ };
  do
  :: atomic { ending && !room && !waking_not_given_up -> gave_up = true }; break
  :: atomic { room -> memory = EMPTY };
    if :: opened_before_contents -> atomic { gate = AWAKE; notify() } :: else fi;
    if
    :: atomic { read_error -> read_error = false };
      if :: failed_copy_taken_for_done -> break :: else fi
    :: memory = WHOLE; break
    fi
  od;
  atomic {
    wakers--;
    gate = AWAKE;
    notify()
  }
}

inline hold(me) {
  do
  :: if :: looks_before_counting :: else -> holders++ fi;
    if
    :: gate == AWAKE -> break
    :: else ->
      if :: looks_before_counting :: else -> holders-- fi;
      pass(me)
    fi
  od;
  if :: looks_before_counting -> holders++ :: else fi
}

// Under the lock. `entered` says whether the stream may go on.
inline try_activate(c) {
  atomic {
    !locked[c];
    if
    :: barred[c] && gate == AWAKE -> barred[c] = false; busy[c] = listed[c]
    :: else
    fi;
    if
    :: barred[c] && !submissions_do_not_ask -> entered = false
    :: else -> listed[c] = true; busy[c] = true; entered = true
    fi
  }
}

inline submit(c) {
  if :: !pending_raised_late -> pending[c]++ :: else fi;
  if
  :: busy[c]
  :: else ->
    do
    :: try_activate(c);
      if
      :: entered -> break
      :: else ->
        if :: !pending_kept_at_gate && !pending_raised_late -> pending[c]-- :: else fi;
        pass(c);
        if :: !pending_kept_at_gate && !pending_raised_late -> pending[c]++ :: else fi
      fi
    od
  fi;
  if :: pending_raised_late -> pending[c]++ :: else fi;
  in_driver++;
  atomic { assert(THERE); runs[c]++; in_driver-- };
  atomic { pending[c]--; entered = false }
}

// A new context enters the registry barred where the gate is closed.
inline make(c) {
  if
  :: made_without_look -> exists[c] = true
  :: else -> atomic { exists[c] = true; barred[c] = (gate != AWAKE) }
  fi
}

proctype Submitter(byte c) {
  byte left = (c == 0 -> OPS : 1);
  bool entered;
  if :: !exists[c] -> make(c) :: else fi;
  do
  :: left > 0 -> left--; submit(c)
  :: left == 0 -> break
  od;
  done++
}

proctype Device() {
  do
  :: atomic { runs[0] > 0 -> assert(THERE); dirty = true; runs[0]-- }
  :: atomic { runs[1] > 0 -> assert(THERE); dirty = true; runs[1]-- }
  :: done == 2 && runs[0] == 0 && runs[1] == 0 -> break
  od
}

// A call that needs the mapping while it lasts, or a capture.
proctype Other() {
  if
  :: hold(2); assert(THERE); atomic { assert(THERE); holders-- }
  :: captures++;
    if :: !capture_does_not_pass -> pass(2) :: else fi;
    assert(THERE);
    atomic { assert(THERE); captures-- }
  fi
}

inline bar_all() {
  c = 0;
  do
  :: c < 2 ->
    if
    :: (listed_before_closing -> known[c] : exists[c]) && !nothing_barred ->
      atomic { !locked[c] -> barred[c] = true; busy[c] = false }
    :: else
    fi;
    c++
  :: else -> c = 0; break
  od
}

// Streams without work leave the list. A thread raises `pending` and reads `active` then.
#define IS_IDLE(c) (runs[c] == 0 && (pending[c] == 0 || calls_not_waited_for))

inline retire(c) {
  atomic { !locked[c] && IS_IDLE(c) -> locked[c] = true; busy[c] = false };
  atomic {
    if
    :: IS_IDLE(c) -> listed[c] = false
    :: else -> busy[c] = !barred[c]
    fi;
    locked[c] = false
  }
}

inline wait_until_idle() {
  c = 0;
  do
  :: c < 2 ->
    if
    :: listed[c] && exists[c] && !nothing_barred ->
      retire(c);
      if :: !listed[c] -> c++ :: else fi
    :: else -> c++
    fi
  :: else -> c = 0; break
  od
}

inline reopen() {
  atomic {
    gate = AWAKE;
    if :: !reopened_without_notify -> notify() :: else fi
  }
}

inline sleep() {
  if :: capture_asked_first -> capturing = (captures != 0) :: else fi;
  if :: listed_before_closing -> atomic { known[0] = exists[0]; known[1] = exists[1] } :: else fi;
  if
  :: atomic { gate == AWAKE -> gate = GOING; notify() };
    bar_all();
    if :: !capture_asked_first -> capturing = (captures != 0) :: else fi;
    if
    :: capturing -> reopen()
    :: !capturing -> reopen()  // something fails
    :: !capturing ->
      if :: !work_not_waited_for -> wait_until_idle() :: else fi;
      if
      :: holders == 0 || holders_not_waited_for ->
        atomic {
          assert(runs[0] + runs[1] + in_driver == 0 || gave_up);
          dirty = false
        };
        if
        :: reopen()  // the copy fails, or somebody has come
        :: atomic {
            assert(!dirty && !over);
            memory = AWAY;
            if :: true :: room = false fi
          };
          atomic { gate = ASLEEP; notify() }
        fi
      :: ending && holders != 0 -> reopen()
      fi
    fi
  :: gate != AWAKE
  fi;
  capturing = false
}

// More of a process that sleeps goes, or cannot go.
inline portion() {
  if
  :: atomic { gate == ASLEEP -> gate = GOING; notify() };
    if
    :: atomic { gate = (failed_portion_opens -> AWAKE : ASLEEP); notify() }
    :: atomic { memory = AWAY; gate = ASLEEP; notify() }
    fi
  :: gate != ASLEEP
  fi
}

proctype Sleeper() {
  byte left = SLEEPS, c;
  bool capturing, known[2];
  do
  :: left > 0 && !ending -> left--; sleep()
  :: left == 0 || ending -> break
  od;
  portion()
}

proctype End() {
  ending = true;
  if :: end_does_not_hold -> pass(3) :: else -> hold(3) fi;
  assert(THERE);
  over = true
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    exists[0] = true;
    run Submitter(0);
    run Submitter(1);
    run Device();
    run Other();
    run Sleeper();
    run End()
  }
}
