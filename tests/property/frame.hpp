// SPDX-License-Identifier: MIT
// Frame: what the generators of random programs share: whose turn it is, which stream, and what
// must come before; streams, events, contexts and captures. One program each; no lock.
#pragma once

#include "tests/property/dice.hpp"
#include "tests/property/generate.hpp"
#include "tests/property/order.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace custash::property {

struct GraphModel {
  int id = 0;
  int context = 0;
  int thread = 0;
  bool executable = false;
  bool template_alive = true;
  bool spent = false;              // memory that it names is gone: it is launched no more
  std::vector<int> contexts = {};  // of its nodes
  std::vector<int> lanes = {};     // that captured it
  std::vector<Use> uses = {};

  [[nodiscard]] bool names(int block) const {
    return std::any_of(
        uses.begin(), uses.end(), [&](const Use& use) { return use.block == block; });
  }
};

class Frame : protected Dice {
 public:
  virtual ~Frame() = default;

 protected:
  struct EventModel {
    int id = 0;
    int context = 0;
    int thread = 0;
    Clock clock = {};
  };

  struct Capture {
    int lane = -1;
    bool relaxed = true;
    GraphModel graph = {};
    std::vector<int> lanes = {};  // the origin first, then what it drew in
  };

  Frame(std::uint64_t seed, const Style& style)
      : Dice(seed), style_(style), order_(style.threads) {
    program_.seed = seed;
    program_.threads = style.threads;
    program_.synced = style.synced;
    for (int context = 0; context < style.contexts; ++context)
      open_context(context);
  }

  // Appends something to the program.
  virtual void one() = 0;

  virtual void end_capture() { finish_capture(); }

  // How many driver calls a command has, about.
  [[nodiscard]] virtual int calls_of(const Command&) const { return 7; }

  // The first streams are there so that the program has something to work on.
  Program make(int streams) {
    for (; streams > 0; --streams) {
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
  void turn() {
    if (style_.threads > 1 && chance(style_.turns)) {
      const int before = std::exchange(thread_, pick(0, style_.threads - 1));
      if (style_.nested && before != thread_ && !program_.commands.empty() && chance(60)) {
        Command& outer = program_.commands.back();
        outer.entry = pick(1, calls_of(outer));
        outer.nested = pick(1, 4);
        // What is freed meanwhile may come before the work of `outer`.
        if (std::exchange(shown_by_, 0) == program_.commands.size())
          visible_[static_cast<std::size_t>(shown_in_)].pop_back();
      }
    }
    if (contexts_.size() > 1 && (chance(20) || !usable(context_))) {
      std::vector<int> able = contexts_;
      std::erase_if(able, [&](int context) { return !usable(context); });
      context_ = any(able);
    }
  }

  Command& put(Op op) {
    Command& c = program_.commands.emplace_back();
    c.op = op;
    c.thread = thread_;
    c.context = context_;
    return c;
  }

  // The host can see what the last command does on its lane.
  void show_host(int lane) {
    shown_by_ = program_.commands.size();
    shown_in_ = order_.lane(lane).context;
    visible_[static_cast<std::size_t>(shown_in_)].push_back(order_.lane_clock(lane));
  }

  Command& put(Op op, int lane) {
    Command& c = put(op);
    c.stream = order_.lane(lane).stream;
    c.context = order_.lane(lane).context;
    return c;
  }

  // `owner`: the only thread that uses it where the threads know nothing of each other; -1:
  // all.
  void open_context(int context, int owner = -1) {
    contexts_.push_back(context);
    visible_.resize(std::max(visible_.size(), static_cast<std::size_t>(context) + 1));
    owners_.resize(visible_.size(), -1);
    owners_[static_cast<std::size_t>(context)] = owner;
    order_.add_lane({.stream = kLegacyNull, .context = context, .thread = -1, .legacy = true});
    for (int thread = 0; thread < style_.threads; ++thread)
      order_.add_lane(
          {.stream = kPerThread, .context = context, .thread = thread, .blocking = true});
  }

  [[nodiscard]] bool mine(int thread) const {
    return style_.synced || thread == thread_ || thread == -1;
  }

  [[nodiscard]] bool usable(int context) const {
    return mine(owners_[static_cast<std::size_t>(context)]);
  }

  // Driver calls are allowed that a global capture forbids, waits of the host among them.
  [[nodiscard]] bool free_to_call() const { return capture_.lane < 0 || capture_.relaxed; }

  // A stream that this thread may give work to now; -1: none.
  int choose_lane(bool for_capture = false) {
    std::vector<int> able;
    for (int i = 0; i < order_.lanes(); ++i) {
      const LaneModel& lane = order_.lane(i);
      if (!lane.alive || lane.context != context_ || lane.capturing) continue;
      if (lane.legacy && (!style_.legacy || capture_.lane >= 0 || for_capture)) continue;
      if (lane.stream == kPerThread &&
          (!style_.per_thread || for_capture || lane.thread != thread_ || chance(70)))
        continue;
      if (lane.stream >= kFirstStream && !mine(lane.thread)) continue;
      able.insert(able.end(), lane.stream >= kFirstStream ? 3 : 1, i);
    }
    return able.empty() ? -1 : any(able);
  }

  // Created streams of the context that this thread may give work to.
  std::vector<int> named_streams() {
    std::vector<int> able;
    for (int i = 0; i < order_.lanes(); ++i) {
      const LaneModel& lane = order_.lane(i);
      if (lane.alive && lane.context == context_ && lane.stream >= kFirstStream &&
          mine(lane.thread))
        able.push_back(i);
    }
    return able;
  }

  // Two of them, for kernels that need each other; false: there are fewer, or a capture goes
  // on.
  bool choose_two(int* first, int* second) {
    if (capture_.lane >= 0) return false;
    std::vector<int> able = named_streams();
    if (able.size() < 2) return false;
    *first = any(able);
    std::erase(able, *first);
    *second = any(able);
    return true;
  }

  // An event can be recorded there now.
  [[nodiscard]] bool recordable(const LaneModel& from) const {
    return from.alive && (from.stream != kPerThread || from.thread == thread_) &&
           !from.capturing && !(from.legacy && capture_.lane >= 0) && mine(from.thread);
  }

  // Beside a capture not every wait can be put in.
  [[nodiscard]] bool can_put_in_order(int lane, const std::vector<UseModel>& uses, bool write) {
    if (capture_.lane < 0) return true;
    const std::vector<int> left = Order::unordered(uses, order_.before(lane, thread_), write);
    return std::all_of(
        left.begin(), left.end(), [&](int other) { return recordable(order_.lane(other)); });
  }

  // Makes the next operation on `lane` come after the uses.
  void put_in_order(int lane, const std::vector<UseModel>& uses, bool write) {
    for (const int other : Order::unordered(uses, order_.before(lane, thread_), write)) {
      if (recordable(order_.lane(other)) &&
          (!free_to_call() || capture_.lane >= 0 || !chance(style_.syncs * 10))) {
        record_event(other);
        wait_event(lane, events_.back());
      } else {
        host_waits(other);
      }
    }
  }

  void record_event(int lane) {
    EventModel event{
        .id = next_event_++, .context = order_.lane(lane).context, .thread = thread_};
    put(Op::EventRecord, lane).other = event.id;
    order_.submit(lane, thread_);
    event.clock = order_.lane_clock(lane);
    events_.push_back(std::move(event));
  }

  void wait_event(int lane, const EventModel& event) {
    put(Op::EventWait, lane).other = event.id;
    order_.submit(lane, thread_);
    join(order_.lane(lane).clock, event.clock);
  }

  void host_waits(int lane) {
    const LaneModel& of = order_.lane(lane);
    const int kept = std::exchange(context_, of.context);
    const bool named =
        of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
    if (named && free_to_call()) {
      put(Op::StreamSync, lane);
      order_.host_waits_for(lane, thread_);
    } else if (capture_.lane < 0) {
      put(Op::ContextSync);
      sync_context(context_);
    }
    context_ = kept;
    share_host();
  }

  // For what is not known to be over, by what the host knows or by `over`. False where a
  // capture forbids it.
  bool host_waits_for_all(const std::vector<UseModel>& uses,
                          bool write,
                          const Clock& over = {}) {
    Clock known = order_.host(thread_);
    join(known, over);
    for (const int lane : Order::unordered(uses, known, write))
      host_waits(lane);
    return Order::unordered(uses, order_.host(thread_), write).empty();
  }

  // A plain free: what the host can see of the context is over now.
  void host_knows_visible(int context) {
    auto& visible = visible_[static_cast<std::size_t>(context)];
    for (const Clock& clock : visible)
      join(order_.host(thread_), clock);
    visible.clear();
    share_host();
  }

  void sync_context(int context) {
    for (int i = 0; i < order_.lanes(); ++i) {
      if (order_.lane(i).context == context) order_.host_waits_for(i, thread_);
    }
    visible_[static_cast<std::size_t>(context)].clear();
    share_host();
  }

  void share_host() {
    if (!style_.synced) return;
    const Clock clock = order_.host(thread_);
    for (int t = 0; t < style_.threads; ++t)
      join(order_.host(t), clock);
  }

  void create_stream() {
    int alive = 0;
    for (int i = 0; i < order_.lanes(); ++i)
      alive += order_.lane(i).alive && order_.lane(i).stream >= kFirstStream;
    if (alive >= style_.max_streams) return;
    Command& c = put(Op::CreateStream);
    c.stream = next_stream_++;
    c.flags = chance(60) ? 1 : 0;
    if (style_.green && context_ < kFirstContext && chance(50)) c.flags = 2;
    order_.add_lane({.stream = c.stream,
                     .context = context_,
                     .thread = thread_,
                     .blocking = c.flags == 0,
                     .green = c.flags == 2});
  }

  void create_context(int owner = -1) {
    const int kept = std::exchange(context_, next_context_++);
    put(Op::CreateContext);
    open_context(context_, owner);
    context_ = kept;
  }

  // Its streams, events and graphs have gone with it.
  void close_context(int context) {
    std::erase(contexts_, context);
    for (int i = 0; i < order_.lanes(); ++i) {
      if (order_.lane(i).context == context) order_.lane(i).alive = false;
    }
    std::erase_if(graphs_, [&](const GraphModel& g) { return g.context == context; });
    std::erase_if(events_, [&](const EventModel& e) { return e.context == context; });
  }

  // False: there is no stream for it.
  bool begin_capture(int relaxed_share) {
    const int lane = choose_lane(true);
    if (lane < 0) return false;
    capture_ = {};
    capture_.lane = lane;
    capture_.lanes = {lane};
    capture_.relaxed = chance(relaxed_share);
    capture_.graph.context = context_;
    capture_.graph.contexts = {context_};
    capture_.graph.thread = thread_;
    order_.lane(lane).capturing = true;
    put(Op::CaptureBegin, lane).flags = capture_.relaxed ? 1 : 0;
    return true;
  }

  GraphModel& finish_capture() {
    GraphModel graph = std::move(capture_.graph);
    graph.lanes = capture_.lanes;
    graph.id = next_graph_++;
    put(Op::CaptureEnd, capture_.lane).other = graph.id;
    for (const int lane : capture_.lanes)
      order_.lane(lane).capturing = false;
    capture_ = {};
    graph.executable = true;
    return graphs_.emplace_back(std::move(graph));
  }

  // Freed memory may not be touched by a later launch. The capture that goes on is looked at,
  // too.
  [[nodiscard]] bool in_graph(const BlockModel& block) const {
    return (capture_.lane >= 0 && capture_.graph.names(block.id)) ||
           std::any_of(graphs_.begin(), graphs_.end(), [&](const GraphModel& g) {
             return (g.executable || g.template_alive) && !g.spent && g.names(block.id);
           });
  }

  BlockModel& new_block(Bytes bytes) {
    return blocks_.emplace_back(BlockModel{.id = static_cast<int>(blocks_.size()),
                                           .context = context_,
                                           .thread = thread_,
                                           .bytes = bytes});
  }

  BlockModel& by_id(int id) { return blocks_[static_cast<std::size_t>(id)]; }

  const Style& style_;
  Order order_;
  Program program_;
  int thread_ = 0;
  int context_ = 0;
  std::vector<int> contexts_;
  std::vector<int> owners_;  // by context
  std::vector<EventModel> events_;
  std::vector<GraphModel> graphs_;
  std::deque<BlockModel> blocks_;            // references stay good
  std::vector<std::vector<Clock>> visible_;  // to the host, by context
  std::size_t shown_by_ = 0;                 // the commands up to the one of the last of these
  int shown_in_ = 0;                         // its context
  Capture capture_;
  int next_event_ = 0, next_graph_ = 0, next_stream_ = kFirstStream, next_flag_ = 1;
  int next_context_ = kFirstContext;
};

}  // namespace custash::property
