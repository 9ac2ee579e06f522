// SPDX-License-Identifier: MIT
// Submission and execution. An op may start when it is at the head of its stream and all ops
// that it comes after are complete; it may end when the flags it spins on are set.
#include "tests/sim/engine.hpp"

#include <algorithm>
#include <thread>

namespace custash::sim {
namespace {

using State = Op::State;

bool ready(World& w, const Op& op) {
  if (op.state != State::Waiting) return false;
  if (op.stream != nullptr && (op.stream->held || op.stream->queue.front() != op.id))
    return false;
  return std::all_of(op.after.begin(), op.after.end(), [&](OpId id) { return is_done(w, id); });
}

bool flags_set(const World& w, const Op& op) {
  return std::all_of(op.work.needs.begin(), op.work.needs.end(), [&](int flag) {
    return w.flags.count(flag) != 0;
  });
}

bool movable(World& w, const Op& op) {
  return ready(w, op) || (op.state == State::Running && flags_set(w, op));
}

void start(World& w, Op& op) {
  op.state = State::Running;
  check_start(w, op);
  Nanoseconds at = op.submitted;
  if (w.options.advance == Advance::Timed) {
    at = std::max(at, w.device_time);
  } else {
    at = std::max(at, w.now);
    if (op.stream != nullptr) at = std::max(at, op.stream->last_finish);
    for (const OpId id : op.after)
      if (const Op* before = find_op(w, id)) at = std::max(at, before->finish);
  }
  op.finish = at + op.work.duration;
  for (const int flag : op.work.sets)
    w.flags.insert(flag);
  if (!op.work.sets.empty()) w.device_time = std::max(w.device_time, at);
}

void retire_stream(Stream& s) {
  auto& dying = s.context->dying;
  dying.erase(
      std::remove_if(dying.begin(), dying.end(), [&](const auto& d) { return d.get() == &s; }),
      dying.end());
}

void leave_queue(World& w, Op& op) {
  Stream* s = op.stream;
  if (s == nullptr) {
    w.loose.erase(std::find(w.loose.begin(), w.loose.end(), op.id));
    return;
  }
  s->queue.pop_front();
  s->last_finish = std::max(s->last_finish, op.finish);
  op.stream = nullptr;
  if (!s->queue.empty()) return;
  s->active = false;
  w.active.erase(std::find(w.active.begin(), w.active.end(), s));
  if (s->destroyed) retire_stream(*s);
}

void set_done(World& w, Op& op) {
  op.state = State::Done;
  op.work.body = nullptr;  // may hold what was staged of pageable memory
  if (op.event != nullptr) {
    Event* event = w.events.get(op.event);
    if (event != nullptr && event->serial == op.event_serial && event->recorded == op.id)
      event->finish = op.finish;
  }
  leave_queue(w, op);
  w.changed.notify_all();
}

// Runs a host function with the lock let go, here or on a thread of its own.
void call_host(World& w, OpId id) {
  find_op(w, id)->state = State::Calling;
  auto host = std::move(find_op(w, id)->work.host);
  ++w.calling;
  auto finish = [&w, id] {
    --w.calling;
    Op& op = *find_op(w, id);  // not complete, so it is still there
    op.finish = std::max(op.finish, w.now);
    set_done(w, op);
  };
  if (w.options.host_function_thread) {
    std::thread([host = std::move(host), finish] {
      set_in_callback(true);
      host();
      set_in_callback(false);
      const Guard guard;
      finish();
    }).detach();
    return;
  }
  unlock_world();
  set_in_callback(true);
  host();
  set_in_callback(false);
  lock_world();
  finish();
}

void end(World& w, Op& op) {
  check_touches(w, op);
  if (op.work.body) op.work.body();
  if (op.work.host) return call_host(w, op.id);
  set_done(w, op);
}

// Told and Seeded: one move of one op. A start whose flags are not set is a move too.
void move(World& w, Op& op) {
  if (op.state == State::Waiting) start(w, op);
  if (flags_set(w, op)) end(w, op);
}

template <typename Visit>
void each_head(World& w, Visit&& visit) {
  for (Stream* s : w.active)
    visit(*find_op(w, s->queue.front()));
  for (const OpId id : w.loose)
    visit(*find_op(w, id));
}

// Timed: the next thing to end; starts all that may start. 0: nothing can.
OpId next_to_end(World& w) {
  for (bool started = true; started;) {
    started = false;
    each_head(w, [&](Op& op) {
      if (!ready(w, op)) return;
      start(w, op);
      started = true;
    });
  }
  Op* best = nullptr;
  each_head(w, [&](Op& op) {
    if (op.state != State::Running || !flags_set(w, op)) return;
    if (best == nullptr || op.finish < best->finish ||
        (op.finish == best->finish && op.id < best->id))
      best = &op;
  });
  return best == nullptr ? 0 : best->id;
}

void end_timed(World& w, Op& op) {
  // A spinner ends when its flag was set, at the earliest.
  op.finish = std::max(op.finish, op.work.needs.empty() ? 0 : w.device_time);
  w.device_time = std::max(w.device_time, op.finish);
  end(w, op);
}

}  // namespace

Op* find_op(World& w, OpId id) {
  return id < w.first_op || id >= w.first_op + w.ops.size() ? nullptr : &w.ops[id - w.first_op];
}

bool is_done(const World& w, OpId id) {
  if (id < w.first_op) return true;
  return id < w.first_op + w.ops.size() && w.ops[id - w.first_op].state == State::Done;
}

namespace {

void add_implicit(const Context& c, const Stream& s, std::vector<OpId>& after) {
  if (s.last != 0) after.push_back(s.last);
  if (c.barrier > s.last) after.push_back(c.barrier);
  if (c.home->barrier > s.last) after.push_back(c.home->barrier);
  if (s.blocking() && c.legacy->last > s.last) after.push_back(c.legacy->last);
  if (s.kind != StreamKind::Legacy) return;
  for (const auto& [thread, lane] : c.per_thread)
    if (lane->last > s.last) after.push_back(lane->last);
  for (const Stream* other : c.streams)
    if (other->blocking() && other->last > s.last) after.push_back(other->last);
  for (const OpId id : c.orphans_blocking)
    if (id > s.last) after.push_back(id);
}

}  // namespace

OpId submit(World& w, Submission in) {
  while (!w.ops.empty() && w.ops.front().state == State::Done) {
    w.ops.pop_front();
    ++w.first_op;
  }
  Context& c = *in.context;
  Op op;
  op.id = w.first_op + w.ops.size();
  op.stream = in.stream;
  op.context_id = c.home->id;
  op.context = c.handle;
  op.device = c.device;
  op.after = std::move(in.after);
  op.submitted = w.now;
  op.work = std::move(in.work);
  op.event = in.event;
  if (in.event != nullptr) op.event_serial = w.events.get(in.event)->serial;
  if (in.stream != nullptr) add_implicit(c, *in.stream, op.after);
  std::sort(op.after.begin(), op.after.end());
  op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
  op.touches = translate_all(w, c, op.work);
  // Kernels of a stream run one after the other here. The observer is told of the order that
  // there is on a device, where an early one comes after no more than the one before it did.
  std::vector<OpId> told = op.after;
  const OpId overtaken = op.work.early && in.stream != nullptr && in.stream->last_is_kernel
                             ? in.stream->last
                             : OpId{0};
  if (overtaken != 0) {
    std::erase(told, overtaken);
    const std::vector<OpId>& before = in.stream->before_kernel;
    told.insert(told.end(), before.begin(), before.end());
  }
  if (Observer* o = observer())
    o->on_submit(op.id,
                 in.thread,
                 told,
                 op.touches,
                 by_allocator() ? kOfAllocator : op.work.name.c_str());
  const OpId id = op.id;
  const bool kernel = op.work.kernel;
  if (Stream* s = in.stream) {
    s->queue.push_back(id);
    s->last = id;
    if (s->kind == StreamKind::Legacy) c.orphans_blocking.clear();
    if (!s->active) w.active.push_back(s);
    s->active = true;
    s->last_is_kernel = kernel;
    s->before_kernel = kernel ? told : std::vector<OpId>{};
  } else {
    w.loose.push_back(id);
  }
  w.ops.push_back(std::move(op));
  w.changed.notify_all();
  if (overtaken != 0) {  // what comes later comes after both
    submit(w,
           {.context = in.context,
            .stream = in.stream,
            .thread = in.thread,
            .work = {.name = "early kernel over"},
            .after = {overtaken}});
    in.stream->last_is_kernel = true;
    in.stream->before_kernel = std::move(told);
  }
  return id;
}

std::vector<OpId> frontier(const Context& c) {
  std::vector<OpId> ops = c.orphans;
  if (c.barrier != 0) ops.push_back(c.barrier);
  if (c.legacy->last != 0) ops.push_back(c.legacy->last);
  for (const auto& [thread, lane] : c.per_thread)
    if (lane->last != 0) ops.push_back(lane->last);
  for (const Stream* s : c.streams)
    if (s->last != 0) ops.push_back(s->last);
  for (const Context* green : c.greens) {
    const std::vector<OpId> more = frontier(*green);
    ops.insert(ops.end(), more.begin(), more.end());
  }
  return ops;
}

Nanoseconds latest_finish(const Context& c) {
  Nanoseconds latest = c.legacy->last_finish;
  for (const auto& [thread, lane] : c.per_thread)
    latest = std::max(latest, lane->last_finish);
  for (const Stream* s : c.streams)
    latest = std::max(latest, s->last_finish);
  for (const Context* green : c.greens)
    latest = std::max(latest, latest_finish(*green));
  return latest;
}

bool try_move(World& w, OpId id) {
  Op* op = find_op(w, id);
  if (op == nullptr || !movable(w, *op)) return false;
  move(w, *op);
  return true;
}

bool step_any(World& w) {
  if (w.options.advance == Advance::Timed) {
    const OpId id = next_to_end(w);
    if (id == 0) return false;
    w.now = std::max(w.now, find_op(w, id)->finish);
    end_timed(w, *find_op(w, id));
    return true;
  }
  std::vector<OpId> able;
  each_head(w, [&](Op& op) {
    if (movable(w, op)) able.push_back(op.id);
  });
  if (able.empty()) return false;
  OpId id = *std::min_element(able.begin(), able.end());
  if (w.options.advance == Advance::Seeded) id = able[w.random() % able.size()];
  move(w, *find_op(w, id));
  return true;
}

void advance(World& w) {
  if (w.active.empty() && w.loose.empty()) return;
  if (w.options.advance == Advance::Seeded) {
    for (std::uint64_t n = w.random() % 4; n > 0 && step_any(w); --n) {
    }
    return;
  }
  if (w.options.advance != Advance::Timed) return;
  for (OpId id = next_to_end(w); id != 0 && find_op(w, id)->finish <= w.now;
       id = next_to_end(w))
    end_timed(w, *find_op(w, id));
}

}  // namespace custash::sim
