// SPDX-License-Identifier: MIT
// The frame: whose turn it is, which stream, what must come before; streams, events and
// contexts.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

Generator::Generator(std::uint64_t seed, const Style& style)
    : style_(style), random_(seed), order_(style.threads) {
  program_.seed = seed;
  program_.threads = style.threads;
  program_.synced = style.synced;
  for (int context = 0; context < style.contexts; ++context)
    open_context(context);
  host_buffers_.resize(kHostBuffers);
  visible_.resize(kFirstContext + 1);
}

Program Generator::make() {
  // The first streams, so that the program has something to work on.
  const int streams = pick(0, std::min(style_.max_streams, 3));
  for (int i = 0; i < streams; ++i) {
    turn();
    create_stream();
  }
  while (static_cast<int>(program_.commands.size()) < style_.commands) {
    turn();
    one();
  }
  if (capture_.lane >= 0) {
    thread_ = capture_.thread;
    context_ = capture_.graph.context;
    end_capture();
  }
  return std::move(program_);
}

// Threads work in bursts.
void Generator::turn() {
  if (style_.threads > 1 && chance(style_.turns)) {
    const int before = std::exchange(thread_, pick(0, style_.threads - 1));
    if (style_.nested && before != thread_ && !program_.commands.empty() && chance(60)) {
      Command& outer = program_.commands.back();
      // A launch is the first or second driver call of its command.
      outer.entry = outer.op == Op::Kernel ? pick(1, 2) : pick(1, 7);
      outer.nested = pick(1, 4);
    }
  }
  if (contexts_.size() > 1 && chance(20)) context_ = any(contexts_);
}

Command& Generator::put(Op op) {
  Command c;
  c.op = op;
  c.thread = thread_;
  c.context = context_;
  program_.commands.push_back(std::move(c));
  return program_.commands.back();
}

Command& Generator::put(Op op, int lane) {
  Command& c = put(op);
  c.stream = order_.lane(lane).stream;
  c.context = order_.lane(lane).context;
  return c;
}

void Generator::open_context(int context) {
  contexts_.push_back(context);
  order_.add_lane({.stream = kLegacyNull, .context = context, .thread = -1, .legacy = true});
  for (int thread = 0; thread < style_.threads; ++thread) {
    order_.add_lane(
        {.stream = kPerThread, .context = context, .thread = thread, .blocking = true});
  }
}

// A stream that this thread may give work to now; -1: none.
int Generator::choose_lane(bool for_capture) {
  std::vector<int> able;
  const bool beside_capture = capture_.lane >= 0;
  for (int i = 0; i < order_.lanes(); ++i) {
    const LaneModel& lane = order_.lane(i);
    if (!lane.alive || lane.context != context_ || lane.capturing) continue;
    if (lane.legacy && (!style_.legacy || beside_capture || for_capture)) continue;
    if (lane.stream == kPerThread &&
        (!style_.per_thread || for_capture || lane.thread != thread_ || chance(70)))
      continue;
    if (lane.stream >= kFirstStream && !mine(lane.thread)) continue;
    able.push_back(i);
    if (lane.stream >= kFirstStream) able.insert(able.end(), 2, i);
  }
  return able.empty() ? -1 : any(able);
}

std::vector<BlockModel*> Generator::live(int context, bool stranger) {
  std::vector<BlockModel*> found;
  for (BlockModel& block : blocks_) {
    if (block.alive && (block.context == context) != stranger && mine(block.thread))
      found.push_back(&block);
  }
  return found;
}

// Makes the next operation on `lane` come after the uses.
void Generator::put_in_order(int lane, const std::vector<UseModel>& uses, bool write) {
  for (const int other : Order::unordered(uses, order_.before(lane, thread_), write)) {
    const LaneModel& from = order_.lane(other);
    const bool usable = from.alive && (from.stream != kPerThread || from.thread == thread_) &&
                        !from.capturing && !(from.legacy && capture_.lane >= 0) &&
                        mine(from.thread);
    if (usable && (!host_may_wait() || !chance(style_.syncs * 10))) {
      record_event(other);
      wait_event(lane, events_.back());
    } else {
      host_waits(other);
    }
  }
}

void Generator::record_event(int lane) {
  EventModel event{.id = next_event_++,
                   .context = order_.lane(lane).context,
                   .thread = thread_,
                   .clock = {}};
  put(Op::EventRecord, lane).other = event.id;
  order_.submit(lane, thread_);
  event.clock = order_.lane_clock(lane);
  events_.push_back(std::move(event));
}

void Generator::wait_event(int lane, const EventModel& event) {
  put(Op::EventWait, lane).other = event.id;
  order_.submit(lane, thread_);
  join(order_.lane(lane).clock, event.clock);
}

void Generator::host_waits(int lane) {
  const LaneModel& of = order_.lane(lane);
  const int kept = context_;
  context_ = of.context;
  const bool named =
      of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
  if (named && host_may_wait()) {
    put(Op::StreamSync, lane);
    join(order_.host(thread_), order_.before(lane, thread_));
  } else if (capture_.lane < 0) {
    put(Op::ContextSync);
    sync_context(context_);
  }
  context_ = kept;
  share_host();
}

void Generator::sync_context(int context) {
  for (int i = 0; i < order_.lanes(); ++i) {
    if (order_.lane(i).context == context) order_.host_waits_for(i, thread_);
  }
  visible_[static_cast<std::size_t>(context)].clear();
  share_host();
}

void Generator::share_host() {
  if (!style_.synced) return;
  const Clock clock = order_.host(thread_);
  for (int t = 0; t < style_.threads; ++t)
    join(order_.host(t), clock);
}

BlockModel& Generator::new_block(Bytes bytes) {
  blocks_.push_back(
      {.id = next_block_++, .context = context_, .thread = thread_, .bytes = bytes});
  return blocks_.back();
}

void Generator::create_stream() {
  int alive = 0;
  for (int i = 0; i < order_.lanes(); ++i)
    alive += order_.lane(i).alive && order_.lane(i).stream >= kFirstStream;
  if (alive >= style_.max_streams) return;
  Command& c = put(Op::CreateStream);
  c.stream = next_stream_++;
  c.flags = chance(60) ? 1 : 0;
  order_.add_lane(
      {.stream = c.stream, .context = context_, .thread = thread_, .blocking = c.flags == 0});
}

void Generator::destroy_stream() {
  const int lane = choose_lane();
  if (lane < 0 || order_.lane(lane).stream < kFirstStream) return;
  put(Op::DestroyStream, lane);
  order_.lane(lane).alive = false;
}

void Generator::event_traffic() {
  const int lane = choose_lane();
  if (lane < 0) return;
  if (events_.empty() || chance(50)) return record_event(lane);
  EventModel& event = any(events_);
  if (!mine(event.thread)) return;
  if (chance(20) && host_may_wait()) {
    put(Op::EventSync).other = event.id;
    join(order_.host(thread_), event.clock);
    return share_host();
  }
  wait_event(lane, event);
}

void Generator::host_sync() {
  if (!host_may_wait()) return;
  const int lane = choose_lane();
  if (lane >= 0 && chance(70)) return host_waits(lane);
  if (capture_.lane >= 0) return;
  put(Op::ContextSync);
  sync_context(context_);
}

void Generator::context_step() {
  if (!style_.created_context || capture_.lane >= 0 || style_.threads > 1) return;
  const auto found = std::find(contexts_.begin(), contexts_.end(), kFirstContext);
  if (found == contexts_.end()) {
    if (context_made_) return;
    context_made_ = true;
    const int kept = std::exchange(context_, kFirstContext);
    put(Op::CreateContext);
    open_context(kFirstContext);
    context_ = kept;
    return;
  }
  if (!chance(20)) return;
  const int kept = context_ == kFirstContext ? 0 : context_;
  context_ = kFirstContext;
  put(Op::DestroyContext);
  sync_context(kFirstContext);
  contexts_.erase(found);
  for (int i = 0; i < order_.lanes(); ++i) {
    if (order_.lane(i).context == kFirstContext) order_.lane(i).alive = false;
  }
  for (BlockModel& block : blocks_)
    block.alive = block.alive && block.context != kFirstContext;
  std::erase_if(graphs_, [](const GraphModel& g) { return g.context == kFirstContext; });
  std::erase_if(events_, [](const EventModel& e) { return e.context == kFirstContext; });
  context_ = kept;
}

void Generator::one() {
  if (style_.nested && chance(6)) return overtaken();
  const int dice = pick(0, 99);
  if (dice < 22)
    return style_.stream_ordered && chance(style_.ordered_share) ? malloc_async()
                                                                 : malloc_plain();
  if (dice < 40) return free_any();
  if (dice < 62) return kernel();
  if (dice < 65) return fill();
  if (dice < 69) return copy_block();
  if (dice < 74)
    return style_.host_view ? (chance(60)   ? copy_to_host()
                               : chance(50) ? copy_from_host()
                                            : host_function())
                            : kernel();
  if (dice < 77)
    return chance(60)           ? create_stream()
           : style_.streams_end ? destroy_stream()
                                : create_stream();
  if (dice < 80) return event_traffic();
  if (dice < 81 + style_.syncs / 3) return host_sync();
  if (dice < 84) return style_.mutual ? mutual() : kernel();
  if (dice < 90)
    return style_.captures ? (chance(60) ? capture_step() : graph_step()) : kernel();
  if (dice < 91) return style_.trims && host_may_wait() ? (void)put(Op::EmptyCache) : kernel();
  if (dice < 93) return context_step();
  if (style_.lazy && chance(80)) return kernel();
  put(Op::Step).bytes = static_cast<Bytes>(pick(1, 6));
}

Program generate(std::uint64_t seed, const Style& style) {
  return Generator(seed, style).make();
}

Program generate(std::uint64_t seed) {
  return generate(seed, random_style(seed));
}

}  // namespace custash::property
