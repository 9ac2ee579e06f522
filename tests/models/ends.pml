// SPDX-License-Identifier: MIT
// The end of a context: X ends, while other threads trim it, ask it, or use its buffers' tickets. A copy of
// the other context Y uses memory of X. X's kernel uses memory of Y, which a thread frees.
//
// Stands for:
//   allocator/order/context_users.hpp: enter open ContextUse
//   allocator/order/context_users.cpp: ContextUsers::leave ContextUsers::close
//   allocator/submission.cpp: Allocator::context_destroyed Allocator::context_gone
//   allocator/registry.hpp: visit_living
//   allocator/registry.cpp: wait_for_others
//   allocator/order/context_events.hpp: end ended
//   allocator/order/context_events.cpp: ContextEvents::abandon ContextEvents::use_over
//   allocator/order/fence_log.hpp: over
//   allocator/order/fence_log.cpp: FenceLog::wait_frees
//   allocator/order/timeline.cpp: Timeline::abandon
//   allocator/cache/context_cache.cpp: ContextCache::abandon
//   allocator/cache/surviving_pages.cpp: SurvivingPages::give_back
//   allocator/order/host_tickets.cpp: HostTickets::poll
//
// Safety: no call of ours is in a context whose end has begun. Memory is given back, and a buffer is
// used again, only when the work that uses it is over.
// Liveness: bare has no users to wait for, so that every thread that stands still for ever is an added
// dead-lock. Kernels end by themselves; a driver call in X ends too.
//
// Assumptions: atomics are sequentially consistent. A wait for an atomic sleeps only while its value is
// the one named, and is woken by a notify alone. The program makes no calls of its own in X meanwhile. It
// has freed plainly in Y since the copy: bare waited there. A ticket stands for work of X.

#ifndef USERS
#define USERS 2
#endif
#ifndef VISITS
#define VISITS 2     // of each user
#endif
#ifndef CLOSES
#define CLOSES 2     // the last one ends it; those before it do not (a release that is not the last)
#endif

byte removed;
#define looks_before_counting (removed == 1)
#define close_does_not_wait (removed == 2)
#define late_user_goes_on (removed == 3)
#define leaves_without_notify (removed == 4)
#define broken_before_abandoned (removed == 5)
#define others_frees_not_waited_for (removed == 6)
#define pages_back_at_abandon (removed == 7)
#define abandoned_taken_for_over (removed == 8)
#define ended_before_driver (removed == 9)
#define late_user_leaves_quietly (removed == 10)
#define abandoned_asked_first (removed == 11)
#define ending_taken_for_ended (removed == 12)

// ---- The driver.
#define ALIVE 0
#define ENDING 1
#define GONE 2
byte x;
bool x_works = true;      // a kernel of X, which uses X's pages, a pinned buffer and memory of Y
bool y_copies = true;     // a copy of Y, from X's memory

// ---- ContextUsers.
byte users, closed;
bool sleeps;

// ---- The timeline.
bool abandoned, broken, ended, passed;

inline enter() {
  inside = false;
  if
  :: looks_before_counting ->
    may = closed == 0;
    users++
  :: else ->
    users++;
    may = closed == 0 || late_user_goes_on
  fi;
  if
  :: may -> inside = true
  :: else -> leave()
  fi;
  may = false
}

inline leave() {
  atomic { users--; count = users };
  if
  :: count == 0 && closed != 0 && !leaves_without_notify && (inside || !late_user_leaves_quietly) -> sleeps = false
  :: else
  fi;
  count = 0
}

inline close() {
  closed++;
  do
  :: close_does_not_wait -> break
  :: !close_does_not_wait ->
    count = users;
    if
    :: count == 0 -> break
    :: else ->
      do
      :: atomic { users != count -> break }
      :: atomic { users == count -> sleeps = true }; !sleeps
      od
    fi
  od;
  count = 0
}

// A call of ours in X: a query, which tells whether its work is over.
inline call_in_x() {
  atomic { assert(x == ALIVE); may = !x_works };
  atomic { assert(x == ALIVE); passed = passed || may; may = false }
}

inline reuse_buffer() { assert(!x_works) }

// FenceLog::over, of a ticket.
inline ask_ticket() {
  if
  :: passed -> reuse_buffer()
  :: else ->
    if
    :: ended || (abandoned_taken_for_over && abandoned) -> reuse_buffer()
    :: else ->
      if
      :: broken -> if :: !abandoned -> reuse_buffer() :: else fi
      :: else
      fi
    fi
  fi
}

// ContextEvents::use_over, of a buffer with events of its own.
inline ask_use() {
  if
  :: abandoned_asked_first ->
    may = abandoned;
    if
    :: may -> if :: ended -> reuse_buffer() :: else fi
    :: else -> if :: broken -> reuse_buffer() :: else fi
    fi
  :: else ->
    may = broken;
    if
    :: may -> if :: !abandoned || ended -> reuse_buffer() :: else fi
    :: else
    fi
  fi;
  may = false
}

// A plain free in Y: wait_for_others.
inline free_in_y() {
  do
  :: true ->
    enter();
    if
    :: inside ->
      atomic { assert(x == ALIVE); !x_works };
      leave();
      break
    :: else -> if :: ended || ending_taken_for_ended -> break :: else fi
    fi
  od;
  inside = false;
  assert(!x_works)
}

proctype User() {
  byte left = VISITS, count;
  bool inside, may;
  do
  :: left > 0 ->
    left--;
    if
    :: true ->  // a trim, a poll
      enter();
      if
      :: inside -> call_in_x(); leave()
      :: else
      fi;
      inside = false
    :: true -> ask_ticket()
    :: true -> ask_use()
    :: true -> free_in_y()
    fi
  :: left == 0 -> break
  od
}

proctype Destroyer() {
  byte left = CLOSES, count;
  do
  :: left > 1 ->
    left--;
    close();
    closed--      // open(): it has not ended
  :: left == 1 ->
    if :: !others_frees_not_waited_for -> !y_copies :: else fi;
    close();
    if
    :: broken_before_abandoned -> broken = true; abandoned = true
    :: else -> abandoned = true; broken = true
    fi;
    if :: pages_back_at_abandon -> assert(!x_works) :: else fi;
    if :: ended_before_driver -> ended = true :: else fi;
    x = ENDING;
    !x_works;     // the driver waits for its work
    atomic { assert(!y_copies); x = GONE };
    ended = true;
    assert(!x_works);  // its pages go back
    break
  od
}

proctype Device() {
  do
  :: x_works -> x_works = false
  :: y_copies -> y_copies = false
  :: !x_works && !y_copies -> break
  od
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    run Device();
    run Destroyer();
    run User();
#if USERS > 1
    run User();
#endif
#if USERS > 2
    run User()
#endif
  }
}
