// SPDX-License-Identifier: MIT
// Room: three processes and two devices, each with room for one. A and B need both devices, C the
// second. Each works now and then, sleeps for another while it idles, and wakes for its next work. A
// and B begin with one device each, and allocate on the other one. One may be stopped for good while it
// has a turn, and one killed.
//
// Stands for:
//   interpose/service/room.cpp: ask yield
//   interpose/service/room_turns.cpp: take_turn is_taken
//   allocator/sleep/waking.cpp: try_to_wake wake_up bring_back
//   allocator/oom_ladder.cpp: ask_neighbours
//
// Safety: nobody takes on a device what another process has released for one that makes room there.
// Liveness: who waits can never go on where all wait, which is a dead-lock. A stopped process is none.
//
// Assumptions: a process that works ends its work. Who retries does so only where it could succeed: no
// other try would change anything. Its turns are passed over once the one that has them was stopped.

#ifndef ROUNDS
#define ROUNDS 2
#endif
#define N 3

byte removed;
#define locks_are_waited_for (removed == 1)
#define stopped_is_waited_for (removed == 2)
#define part_is_kept (removed == 3)
#define wakers_do_not_look (removed == 4)
#define killed_keeps_its_turn (removed == 5)
#define allocation_keeps_awake (removed == 6)

// ---- The devices: whose memory is there, and who makes room; 0: nobody.
byte memory[2], turn[2];

// ---- The processes.
bool awake[N], works[N], allocates[N];
bool stopped[N + 1];  // by number plus one
byte yielded_to[N];  // the one that it went to sleep for, while that one has its turn
byte may_stop = 1, may_die = 1;

#define me (p + 1)
#define needs(d) (p != 2 || d == 1)
#define first(p) (p == 1 -> 1 : 0)  // in whose order B takes turns
#define other(d) (turn[d] != 0 && turn[d] != me)
#define passed_over(d) (!stopped_is_waited_for && stopped[turn[d]])
#define kept_out(d) (needs(d) && other(d) && !passed_over(d))
#define idles(q) \
  (awake[q] && !works[q] && !stopped[q + 1] && !(allocation_keeps_awake && allocates[q]))
#define lacks(d) (needs(d) && memory[d] != me)
#define attainable(d) (!needs(d) || memory[d] == 0 || memory[d] == me || idles(memory[d] - 1))

inline leave_turn() {
  atomic {
    if :: turn[0] == me -> turn[0] = 0 :: else fi;
    if :: turn[1] == me -> turn[1] = 0 :: else fi;
    for (q : 0 .. N - 1) { if :: yielded_to[q] == me -> yielded_to[q] = 0 :: else fi }
  }
}

inline leave_memory(whose) {
  if :: memory[0] == whose -> memory[0] = 0 :: else fi;
  if :: memory[1] == whose -> memory[1] = 0 :: else fi
}

// bring_back: the memory of each device, or none.
inline make(d) {
  atomic {
    if
    :: !needs(d) || memory[d] == me
    :: else ->
      if
      :: memory[d] == 0 ->
        assert(yielded_to[p] == 0 || turn[d] != yielded_to[p] || stopped[turn[d]]);
        memory[d] = me
      :: else -> short_of = true
      fi
    fi
  }
}

inline bring_back() {
  short_of = false;
  make(0);
  if :: !short_of -> make(1) :: else fi;
  atomic {
    if
    :: !short_of -> awake[p] = true
    :: short_of && !part_is_kept -> leave_memory(me)
    :: else
    fi
  }
}

// take_turn, which never waits.
inline lock(d) {
  atomic {
    if
    :: !needs(d) || passed_over(d)
    :: else ->
      if
      :: turn[d] == 0 -> turn[d] = me
      :: else -> has_turn = false
      fi
    fi
  }
}

inline lock_waiting(d) {
  if
  :: !needs(d)
  :: else -> atomic { turn[d] == 0 || passed_over(d) -> turn[d] = me }
  fi
}

inline take_turn() {
  has_turn = true;
  if
  :: locks_are_waited_for && first(p) == 0 -> lock_waiting(0); lock_waiting(1)
  :: locks_are_waited_for && first(p) == 1 -> lock_waiting(1); lock_waiting(0)
  :: else ->
    lock(0);
    if :: has_turn -> lock(1) :: else fi;
    if :: !has_turn -> leave_turn() :: else fi
  fi
}

// ask: the others, one after the other, while memory is lacking.
inline ask() {
  for (q : 0 .. N - 1) {
    atomic {
      if
      :: q != p && idles(q) &&
         ((needs(0) && memory[0] == q + 1) || (needs(1) && memory[1] == q + 1)) ->
        awake[q] = false;
        yielded_to[q] = me;
        leave_memory(q + 1)
      :: else
      fi
    }
  }
}

inline wake() {
  atomic { wakers_do_not_look || !(kept_out(0) || kept_out(1)) };
  bring_back();
  if
  :: !short_of
  :: else ->
    take_turn();
    if
    :: has_turn ->
      if
      :: may_stop == 1 -> may_stop = 0; stopped[me] = true;
end_stopped: false
      :: may_die == 1 ->
        atomic {
          may_die = 0;
          dead = true;
          if :: !killed_keeps_its_turn -> leave_turn() :: else fi;
          leave_memory(me)
        }
      :: ask(); bring_back(); leave_turn()
      fi
    :: else
    fi;
    // Until another try could succeed.
    if
    :: !dead && !awake[p] -> atomic { attainable(0) && attainable(1) }
    :: else
    fi
  fi
}

// An allocation keeps what the process has. The process may be put to sleep meanwhile: its memory is
// then made when it wakes.
inline allocate(d) {
  allocates[p] = true;
  has_turn = true;
  lock(d);
  if
  :: has_turn -> ask()
  :: else
  fi;
  atomic {
    if
    :: awake[p] && memory[d] == 0 -> memory[d] = me
    :: else
    fi
  };
  if :: has_turn -> leave_turn() :: else fi;
  if
  :: awake[p] && lacks(d) -> atomic { !awake[p] || !lacks(d) || attainable(d) }
  :: else
  fi;
  allocates[p] = false
}

proctype Process(byte p) {
  byte left = ROUNDS, q;
  bool short_of, has_turn, dead;
  do
  :: left > 0 && !dead ->
    if
    :: atomic { awake[p] && !lacks(0) && !lacks(1) -> works[p] = true };
      works[p] = false;
      left--
    :: awake[p] && lacks(0) -> allocate(0)
    :: awake[p] && lacks(1) -> allocate(1)
    :: !awake[p] -> wake()
    fi
  :: left == 0 || dead -> break
  od
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    awake[0] = true;
    awake[1] = true;
    memory[0] = 1;
    memory[1] = 2;
    run Process(0);
    run Process(1);
    run Process(2)
  }
}
