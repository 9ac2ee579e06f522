// SPDX-License-Identifier: MIT
// The capture gate: two contexts, each with one stream. A capture begins on the first context's
// stream, draws in the second one's by a wait, and ends, while other threads free and submit.
//
// Stands for:
//   allocator/order/capture_gate.hpp: capture_begins capture_begun capture_ended step_begins step_done Pass
//   allocator/order/timeline.cpp: Timeline::prepare_capture Timeline::wait_begins Timeline::wait_done
//   allocator/order/timeline.cpp: Timeline::note_tail
//   allocator/order/context_events.cpp: ContextEvents::record_after ContextEvents::record_whole ContextEvents::wait_stream
//   allocator/order/context_events.cpp: ContextEvents::record_on_stream ContextEvents::stream_captures
//   allocator/order/fence_log.cpp: FenceLog::ensure FenceLog::record FenceLog::record_streams
//   allocator/order/fence_log.cpp: FenceLog::wait_all
//   allocator/graph_memory.cpp: GraphMemory::capture_begins GraphMemory::capture_begin_done GraphMemory::capture_ended
//   interpose/hooks/capture_calls.cpp: end_capture
//
// Safety: no event is recorded over a context of which a stream captures, none on a stream that
// captures, and no stream that captures is made to wait: each would be part of the capture, or end it.
// The event of a fence is over all that the fence covers. No call tells an error that bare does not.
// Liveness: bare has no gate, so that every thread that stands still for ever is an added dead-lock.
//
// Assumptions: atomics are sequentially consistent. A thread that waits for a count gives the processor
// away until it has changed; the 100 turns of wait_all() outlast another thread's way from the driver
// to its next line. Nothing passes while this runs. Threads do not launch on a stream that
// another one is drawing into a capture. No legacy stream, no orphans.

#ifndef OPS
#define OPS 2          // of each other thread
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CAPTURES
#define CAPTURES 1     // one after the other
#endif

byte removed;
#define no_pass (removed == 1)
#define gate_of_one_timeline (removed == 2)
#define step_does_not_wait (removed == 3)
#define pass_does_not_look (removed == 4)
#define wait_is_no_step (removed == 5)
#define lane_not_asked (removed == 6)
#define no_tail_before_wait (removed == 7)
#define ended_before_driver (removed == 8)
#define counted_after_step (removed == 9)
#define looks_before_counting (removed == 10)
#define paying_stream_not_asked (removed == 11)
#define capturing_asked_before_pass (removed == 12)
#define nothing_prepared (removed == 13)

// ---- The driver: each context's stream.
bool stream_captures[2];
byte has[2];            // submissions

// ---- The gate.
byte gate_captures, passing, steps;

// ---- The timelines.
byte submitted[2], newest[2], pending[2], last[2], tail_covers[2], tail_over[2];
bool tail[2];
byte back_covers[2], back_over[2];  // the newest fence: what it covers, what its event is over

#define CAPTURING(c) (gate_captures != 0 && (!gate_of_one_timeline || c == 0))

inline pass() {
  if
  :: no_pass -> skip
  :: pass_does_not_look -> passing++
  :: looks_before_counting -> steps == 0; passing++
  :: else ->
    do
    :: passing++;
      if
      :: steps == 0 -> break
      :: else -> passing--; steps == 0
      fi
    od
  fi
}

inline pass_done() { if :: !no_pass -> passing-- :: else fi }

inline step_begins() {
  steps++;
  if :: !step_does_not_wait -> passing == 0 :: else fi
}

inline record_on(c) {
  assert(!stream_captures[c]);
  over = has[c]
}

inline note_tail(c) {
  pass();
  asked = CAPTURING(c) && stream_captures[c] && !lane_not_asked;
  if
  :: !asked ->
    atomic { record_on(c); tail[c] = true; tail_over[c] = over; tail_covers[c] = last[c]; over = 0 }
  :: else
  fi;
  asked = false;
  pass_done()
}

// A fence over what is submitted. `fenced` says whether it could be had.
inline ensure(c) {
  fenced = true;
  need = submitted[c];
  if
  :: need <= newest[c]
  :: else ->
    covers = submitted[c];
    whole = !CAPTURING(c);
    pass();
    if :: !capturing_asked_before_pass -> whole = !CAPTURING(c) :: else fi;
    if
    :: whole -> atomic { assert(!stream_captures[c]); over = has[c] }  // cuCtxRecordEvent
    :: else ->
      if
      :: atomic { tail[c] && pending[c] == 0 && last[c] <= tail_covers[c] -> over = tail_over[c] }
      :: else ->
        asked = CAPTURING(c) && stream_captures[c] && !lane_not_asked;
        if
        :: !asked -> atomic { record_on(c) }
        :: atomic { asked && back_covers[c] > 0 && pending[c] == 0 && last[c] <= back_covers[c] -> over = back_over[c] }
        :: else -> fenced = false
        fi;
        asked = false
      fi
    fi;
    pass_done();
    atomic {
      if
      :: fenced ->
        assert(over >= covers);
        newest[c] = (covers > newest[c] -> covers : newest[c]);
        if :: covers >= back_covers[c] -> back_covers[c] = covers; back_over[c] = over :: else fi
      :: else
      fi
    }
  fi;
  atomic { need = 0; covers = 0; over = 0; whole = false }
}

inline wait_all(c) {
  ensure(c);
  if
  :: !fenced && CAPTURING(c) ->
    pending[c] == 0;  // another thread comes from the driver
    ensure(c);
    assert(fenced || !CAPTURING(c))
  :: else
  fi;
  fenced = false
}

// Another thread pays a debt by a wait of this context's stream.
inline pay(c) {
  pass();
  asked = CAPTURING(c) && stream_captures[c] && !paying_stream_not_asked;
  if :: !asked -> assert(!stream_captures[c]) :: else fi;
  asked = false;
  pass_done()
}

inline launch(c) {
  pending[c]++;
  has[c]++;
  atomic { submitted[c]++; number = submitted[c] };
  last[c] = (number > last[c] -> number : last[c]);
  pending[c]--;
  number = 0
}

inline capture() {
  if
  :: !nothing_prepared -> ensure(0); ensure(1)
  :: else
  fi;
  step_begins();
  if :: !counted_after_step -> gate_captures++ :: else fi;
  stream_captures[0] = true;
  steps--;
  if :: counted_after_step -> gate_captures++ :: else fi;
  // Work on the other stream, then a wait for an event of the capture draws it in.
  if :: true -> launch(1) :: true fi;
  if
  :: pending[1]++;
    if :: last[1] > 0 && !no_tail_before_wait -> note_tail(1) :: else fi;
    if :: !wait_is_no_step -> step_begins() :: else fi;
    stream_captures[1] = true;
    if :: !wait_is_no_step -> steps-- :: else fi;
    pending[1]--
  :: skip
  fi;
  if :: ended_before_driver -> gate_captures-- :: else fi;
  atomic { stream_captures[0] = false; stream_captures[1] = false };
  if :: !ended_before_driver -> gate_captures-- :: else fi
}

proctype Capturer() {
  byte left = CAPTURES, need, covers, over, number;
  bool asked, whole, fenced;
  do
  :: left > 0 -> left--; capture()
  :: left == 0 -> break
  od
}

proctype Worker(byte c) {
  byte left = OPS, need, covers, over;
  bool asked, whole, fenced;
  do
  :: left > 0 ->
    left--;
    if
    :: true -> ensure(c)     // a free
    :: true -> wait_all(c)   // a free in another context of the device
    :: true -> pay(c)
    fi;
    fenced = false
  :: left == 0 -> break
  od
}

init {
  c_code {
    const char* rule = getenv("REMOVED");
    now.removed = rule ? atoi(rule) : 0;
  };
  atomic {
    // A kernel runs on each stream.
    has[0] = 1; submitted[0] = 1; last[0] = 1;
    has[1] = 1; submitted[1] = 1; last[1] = 1;
    run Capturer();
    run Worker(1);
#if WORKERS > 1
    run Worker(0)
#endif
  }
}
