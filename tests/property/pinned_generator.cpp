// SPDX-License-Identifier: MIT
// The frame: whose turn it is, which stream, what must come before; streams and contexts.
#include "tests/property/pinned_generator.hpp"

#include "tests/property/program.hpp"

#include <algorithm>

namespace custash::property {

PinnedGenerator::PinnedGenerator(std::uint64_t seed, const PinStyle& style)
    : style_(style), random_(seed), order_(style.threads) {
  program_.seed = seed;
  program_.threads = style.threads;
  program_.synced = style.synced;
  visible_.resize(kFirstContext + 1);
  for (int context = 0; context < style.contexts; ++context)
    open_context(context);
}

PinProgram PinnedGenerator::make() {
  for (int i = std::min(style_.max_streams, 2); i > 0; --i) {
    turn();
    create_stream();
  }
  while (static_cast<int>(program_.commands.size()) < style_.commands) {
    turn();
    one();
  }
  if (capture_.lane >= 0) {
    thread_ = capture_.graph.thread;
    context_ = capture_.graph.context;
    end_capture();
  }
  return std::move(program_);
}

// Threads work in bursts.
void PinnedGenerator::turn() {
  if (style_.threads > 1 && chance(style_.nested ? 50 : 25)) {
    const int before = std::exchange(thread_, pick(0, style_.threads - 1));
    if (style_.nested && before != thread_ && !program_.commands.empty() && chance(60)) {
      program_.commands.back().entry = pick(1, 7);
      program_.commands.back().nested = pick(1, 4);
    }
  }
  if (contexts_.size() > 1 && chance(30)) context_ = any(contexts_);
}

void PinnedGenerator::one() {
  const int dice = pick(0, 99);
  if (dice < 18) return alloc();
  if (dice < 36) return end_any();
  if (dice < 62) return work();
  if (dice < 72) return late_copy();
  if (dice < 76) return chance(70) ? create_stream() : destroy_stream();
  if (dice < 80) {
    if (const int lane = choose_lane();
        lane >= 0 && free_to_call() && chance(style_.syncs * 10))
      host_waits(lane);
    return;
  }
  if (dice < 83) return style_.mutual ? mutual() : work();
  if (dice < 89 && style_.captures) return chance(60) ? capture_step() : graph_step();
  if (dice < 91 && style_.empties && free_to_call()) return (void)put(PinOp::Empty);
  if (dice < 92) {
    put(PinOp::Idle).bytes = static_cast<Bytes>(pick(1, 200));
    return;
  }
  if (dice < 95) return context_step();
  if (style_.lazy && chance(80)) return work();
  put(PinOp::Step).bytes = static_cast<Bytes>(pick(1, 6));
}

PinCommand& PinnedGenerator::put(PinOp op) {
  PinCommand c;
  c.op = op;
  c.thread = thread_;
  c.context = context_;
  program_.commands.push_back(c);
  return program_.commands.back();
}

PinCommand& PinnedGenerator::put(PinOp op, int lane) {
  PinCommand& c = put(op);
  c.stream = order_.lane(lane).stream;
  c.context = order_.lane(lane).context;
  return c;
}

void PinnedGenerator::open_context(int context) {
  contexts_.push_back(context);
  order_.add_lane({.stream = kLegacyNull, .context = context, .thread = -1, .legacy = true});
  for (int thread = 0; thread < style_.threads; ++thread) {
    order_.add_lane(
        {.stream = kPerThread, .context = context, .thread = thread, .blocking = true});
  }
}

// A stream that this thread may give work to now; -1: none.
int PinnedGenerator::choose_lane(bool for_capture) {
  std::vector<int> able;
  for (int i = 0; i < order_.lanes(); ++i) {
    const LaneModel& lane = order_.lane(i);
    if (!lane.alive || lane.context != context_ || lane.capturing) continue;
    if (lane.legacy && (!style_.legacy || capture_.lane >= 0 || for_capture)) continue;
    if (lane.stream == kPerThread &&
        (!style_.per_thread || for_capture || lane.thread != thread_ || chance(60)))
      continue;
    if (lane.stream >= kFirstStream && !mine(lane.thread)) continue;
    able.insert(able.end(), lane.stream >= kFirstStream ? 3 : 1, i);
  }
  return able.empty() ? -1 : any(able);
}

// Makes the next operation on `lane` come after the uses.
void PinnedGenerator::put_in_order(int lane, const std::vector<UseModel>& uses, bool write) {
  for (const int other : Order::unordered(uses, order_.before(lane, thread_), write)) {
    const LaneModel& from = order_.lane(other);
    const bool usable = from.alive && (from.stream != kPerThread || from.thread == thread_) &&
                        !from.capturing && !(from.legacy && capture_.lane >= 0) &&
                        mine(from.thread);
    if (usable && (!free_to_call() || !chance(style_.syncs * 10))) {
      record_event(other);
      wait_event(lane, events_.back());
    } else {
      host_waits(other);
    }
  }
}

void PinnedGenerator::record_event(int lane) {
  Event event{.id = next_event_++, .context = order_.lane(lane).context, .thread = thread_};
  put(PinOp::EventRecord, lane).other = event.id;
  order_.submit(lane, thread_);
  event.clock = order_.lane_clock(lane);
  events_.push_back(std::move(event));
}

void PinnedGenerator::wait_event(int lane, const Event& event) {
  put(PinOp::EventWait, lane).other = event.id;
  order_.submit(lane, thread_);
  join(order_.lane(lane).clock, event.clock);
}

void PinnedGenerator::host_waits(int lane) {
  const LaneModel& of = order_.lane(lane);
  const int kept = std::exchange(context_, of.context);
  const bool named =
      of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
  if (named && free_to_call()) {
    put(PinOp::StreamSync, lane);
    join(order_.host(thread_), order_.before(lane, thread_));
  } else if (capture_.lane < 0) {
    put(PinOp::ContextSync);
    sync_context(context_);
  }
  context_ = kept;
  share_host();
}

// False where a capture forbids it.
bool PinnedGenerator::host_waits_for_all(const std::vector<UseModel>& uses, bool write) {
  for (const int lane : Order::unordered(uses, order_.host(thread_), write))
    host_waits(lane);
  return Order::unordered(uses, order_.host(thread_), write).empty();
}

void PinnedGenerator::sync_context(int context) {
  for (int i = 0; i < order_.lanes(); ++i) {
    if (order_.lane(i).context == context) order_.host_waits_for(i, thread_);
  }
  visible_[static_cast<std::size_t>(context)].clear();
  share_host();
}

void PinnedGenerator::share_host() {
  if (!style_.synced) return;
  const Clock clock = order_.host(thread_);
  for (int t = 0; t < style_.threads; ++t)
    join(order_.host(t), clock);
}

void PinnedGenerator::create_stream() {
  int alive = 0;
  for (int i = 0; i < order_.lanes(); ++i)
    alive += order_.lane(i).alive && order_.lane(i).stream >= kFirstStream;
  if (alive >= style_.max_streams) return;
  PinCommand& c = put(PinOp::CreateStream);
  c.stream = next_stream_++;
  c.flags = chance(60) ? 1 : 0;
  order_.add_lane(
      {.stream = c.stream, .context = context_, .thread = thread_, .blocking = c.flags == 0});
}

void PinnedGenerator::destroy_stream() {
  const int lane = choose_lane();
  if (lane < 0 || order_.lane(lane).stream < kFirstStream) return;
  for (Buffer& buffer : buffers_) {  // what was named has to live until the free
    const bool named =
        std::find(buffer.named.begin(), buffer.named.end(), lane) != buffer.named.end();
    if (buffer.alive && named) return;
  }
  put(PinOp::DestroyStream, lane);
  order_.lane(lane).alive = false;
}

void PinnedGenerator::context_step() {
  if (capture_.lane >= 0 || !style_.synced) return;
  if (style_.created_context && !context_made_) {
    context_made_ = true;
    const int kept = std::exchange(context_, kFirstContext);
    put(PinOp::CreateContext);
    open_context(kFirstContext);
    context_ = kept;
    return;
  }
  const bool may_end = context_ >= kFirstContext || style_.resets;
  if (!may_end || !chance(30)) return;
  // Work of other contexts with its buffers, freed ones too, ends before it.
  for (Buffer& buffer : buffers_) {
    if (buffer.context == context_) (void)host_waits_for_all(buffer.uses, true);
  }
  put(PinOp::EndContext);
  sync_context(context_);
  forget_context(context_);
}

void PinnedGenerator::forget_context(int context) {
  for (int i = 0; i < order_.lanes(); ++i) {
    if (order_.lane(i).context == context) order_.lane(i).alive = false;
  }
  for (Buffer& buffer : buffers_) {
    buffer.alive = buffer.alive && buffer.context != context;
    std::erase_if(buffer.named, [&](int lane) { return order_.lane(lane).context == context; });
  }
  std::erase_if(graphs_, [&](const Graph& g) { return g.context == context; });
  std::erase_if(events_, [&](const Event& e) { return e.context == context; });
  contexts_.erase(std::find(contexts_.begin(), contexts_.end(), context));
  if (context < kFirstContext) {
    open_context(context);  // reset: as new
  } else {
    context_ = 0;
  }
}

PinProgram generate_pinned(std::uint64_t seed) {
  const PinStyle style = pinned_style(seed);
  return PinnedGenerator(seed, style).make();
}

}  // namespace custash::property
