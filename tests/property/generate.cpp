// SPDX-License-Identifier: MIT
// A program is built command by command. Before work touches a block, whatever is missing in the
// order (an event and a wait, or a wait of the host) is put in.
#include "tests/property/generate.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <utility>

#include "tests/property/order.hpp"

namespace custash::property {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const Style& style) : style_(style), random_(seed), order_(style.threads) {
    program_.seed = seed;
    program_.threads = style.threads;
    program_.synced = style.synced;
    for (int context = 0; context < style.contexts; ++context) open_context(context);
    host_buffers_.resize(kHostBuffers);
    visible_.resize(kFirstContext + 1);
  }

  Program make() {
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

 private:
  struct GraphModel {
    int id = 0;
    int context = 0;
    int thread = 0;
    bool executable = false;
    bool template_alive = true;
    bool visible = false;
    std::vector<Use> uses = {};
    std::vector<std::pair<int, bool>> hosts = {};  // buffer, written
  };

  struct EventModel {
    int id = 0;
    int context = 0;
    int thread = 0;
    Clock clock = {};
  };

  struct Capture {
    int lane = -1;
    int thread = 0;
    bool relaxed = true;
    GraphModel graph;
  };

  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  bool chance(int of_hundred) { return pick(1, 100) <= of_hundred; }

  template <typename T>
  T& any(std::vector<T>& of) {
    return of[static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1))];
  }

  // Threads work in bursts.
  void turn() {
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

  Command& put(Op op) {
    Command c;
    c.op = op;
    c.thread = thread_;
    c.context = context_;
    program_.commands.push_back(std::move(c));
    return program_.commands.back();
  }

  Command& put(Op op, int lane) {
    Command& c = put(op);
    c.stream = order_.lane(lane).stream;
    c.context = order_.lane(lane).context;
    return c;
  }

  void open_context(int context) {
    contexts_.push_back(context);
    order_.add_lane({.stream = kLegacyNull, .context = context, .thread = -1, .legacy = true});
    for (int thread = 0; thread < style_.threads; ++thread) {
      order_.add_lane({.stream = kPerThread, .context = context, .thread = thread, .blocking = true});
    }
  }

  [[nodiscard]] bool mine(int thread) const { return style_.synced || thread == thread_ || thread == -1; }

  // A stream that this thread may give work to now; -1: none.
  int choose_lane(bool for_capture = false) {
    std::vector<int> able;
    const bool beside_capture = capture_.lane >= 0;
    for (int i = 0; i < order_.lanes(); ++i) {
      const LaneModel& lane = order_.lane(i);
      if (!lane.alive || lane.context != context_ || lane.capturing) continue;
      if (lane.legacy && (!style_.legacy || beside_capture || for_capture)) continue;
      if (lane.stream == kPerThread && (!style_.per_thread || for_capture || lane.thread != thread_ || chance(70))) continue;
      if (lane.stream >= kFirstStream && !mine(lane.thread)) continue;
      able.push_back(i);
      if (lane.stream >= kFirstStream) able.insert(able.end(), 2, i);
    }
    return able.empty() ? -1 : any(able);
  }

  std::vector<BlockModel*> live(int context, bool stranger = false) {
    std::vector<BlockModel*> found;
    for (BlockModel& block : blocks_) {
      if (block.alive && (block.context == context) != stranger && mine(block.thread)) found.push_back(&block);
    }
    return found;
  }

  [[nodiscard]] bool host_may_wait() const { return capture_.lane < 0 || capture_.relaxed; }

  // Makes the next operation on `lane` come after the uses.
  void put_in_order(int lane, const std::vector<UseModel>& uses, bool write) {
    for (const int other : Order::unordered(uses, order_.before(lane, thread_), write)) {
      const LaneModel& from = order_.lane(other);
      const bool usable = from.alive && (from.stream != kPerThread || from.thread == thread_) && !from.capturing &&
                          !(from.legacy && capture_.lane >= 0) && mine(from.thread);
      if (usable && (!host_may_wait() || !chance(style_.syncs * 10))) {
        record_event(other);
        wait_event(lane, events_.back());
      } else {
        host_waits(other);
      }
    }
  }

  void record_event(int lane) {
    EventModel event{.id = next_event_++, .context = order_.lane(lane).context, .thread = thread_, .clock = {}};
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
    const int kept = context_;
    context_ = of.context;
    const bool named = of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
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
    for (int t = 0; t < style_.threads; ++t) join(order_.host(t), clock);
  }

  Bytes size() { return style_.sizes[static_cast<std::size_t>(pick(0, static_cast<int>(style_.sizes.size()) - 1))]; }

  BlockModel& new_block(Bytes bytes) {
    blocks_.push_back({.id = next_block_++, .context = context_, .thread = thread_, .bytes = bytes});
    return blocks_.back();
  }

  void malloc_plain() {
    if (!host_may_wait()) return;  // unsafe during a global capture
    const BlockModel& block = new_block(size());
    Command& c = put(Op::Malloc);
    c.block = block.id;
    c.bytes = block.bytes;
  }

  void malloc_async() {
    const int lane = choose_lane();
    if (lane < 0 || !host_may_wait()) return;
    BlockModel& block = new_block(size());
    Command& c = put(Op::MallocAsync, lane);
    c.block = block.id;
    c.bytes = block.bytes;
    block.uses.push_back({lane, order_.submit(lane, thread_), true});
  }

  void free_plain(BlockModel& block) {
    if (!host_may_wait() || in_graph(block)) return;
    // Bare, a free does not wait for other devices.
    for (const int lane : Order::unordered(block.uses, order_.host(thread_), true)) {
      if (device_of(order_.lane(lane).context) == device_of(block.context)) continue;
      if (capture_.lane >= 0) return;
      host_waits(lane);
    }
    const int kept = std::exchange(context_, block.context);
    put(Op::Free).block = block.id;
    context_ = kept;
    block.alive = false;
    // What the host can see of this context is over now.
    auto& visible = visible_[static_cast<std::size_t>(block.context)];
    for (const Clock& clock : visible) join(order_.host(thread_), clock);
    visible.clear();
    share_host();
  }

  void free_async(BlockModel& block) {
    if (!host_may_wait() || in_graph(block)) return;
    const int lane = choose_lane();
    if (lane < 0) return;
    const auto left = Order::unordered(block.uses, order_.before(lane, thread_), true);
    const bool recordable = std::all_of(left.begin(), left.end(), [&](int l) {
      const LaneModel& of = order_.lane(l);
      return of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
    });
    if (!left.empty() && recordable && chance(40)) {
      for (const int other : left) put(Op::RecordStream, other).block = block.id;
    } else {
      put_in_order(lane, block.uses, true);
    }
    put(Op::FreeAsync, lane).block = block.id;
    order_.submit(lane, thread_);
    block.alive = false;
  }

  void free_any() {
    auto of = live(context_);
    if (of.empty()) return;
    BlockModel& block = *any(of);
    if (style_.stream_ordered && chance(style_.ordered_share)) return free_async(block);
    free_plain(block);
  }

  bool in_graph(const BlockModel& block) const {
    const auto names = [&](const GraphModel& g) {
      return std::any_of(g.uses.begin(), g.uses.end(), [&](const Use& use) { return use.block == block.id; });
    };
    // Freed memory may not be touched by a later launch. The capture that goes on is looked at, too.
    return (capture_.lane >= 0 && names(capture_.graph)) ||
           std::any_of(graphs_.begin(), graphs_.end(), [&](const GraphModel& g) {
             return (g.executable || g.template_alive) && names(g);
           });
  }

  Use part_of(const BlockModel& block, bool write) {
    Use use{.block = block.id, .offset = 0, .bytes = block.bytes, .write = write};
    if (block.bytes >= 1024 && chance(30)) {
      use.bytes = block.bytes / 4;
      use.offset = static_cast<Bytes>(pick(0, 3)) * use.bytes;
    }
    return use;
  }

  BlockModel& by_id(int id) { return blocks_[static_cast<std::size_t>(id)]; }

  std::vector<Use> choose_uses() {
    auto of = live(context_);
    std::vector<Use> uses;
    for (int n = pick(1, 3); n > 0 && !of.empty(); --n) {
      // Mostly what was allocated last: that is what programs do.
      const std::size_t at = chance(60) ? of.size() - 1 : static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1));
      uses.push_back(part_of(*of[at], chance(70)));
      of.erase(of.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return uses;
  }

  void order_uses(int lane, const std::vector<Use>& uses) {
    for (const Use& use : uses) put_in_order(lane, by_id(use.block).uses, use.write);
  }

  void note_uses(int lane, int number, const std::vector<Use>& uses) {
    for (const Use& use : uses) note(by_id(use.block).uses, {lane, number, use.write});
  }

  static void note(std::vector<UseModel>& uses, const UseModel& fresh) { uses.push_back(fresh); }

  void kernel() {
    const int lane = choose_lane();
    if (lane < 0) return;
    std::vector<Use> uses = choose_uses();
    order_uses(lane, uses);
    note_uses(lane, order_.submit(lane, thread_), uses);
    put(Op::Kernel, lane).uses = std::move(uses);
  }

  // The first spins until the second runs; between them the program allocates.
  void mutual() {
    if (capture_.lane >= 0) return;
    std::vector<int> able;
    for (int i = 0; i < order_.lanes(); ++i) {
      const LaneModel& lane = order_.lane(i);
      if (lane.alive && lane.context == context_ && lane.stream >= kFirstStream && mine(lane.thread)) able.push_back(i);
    }
    if (able.size() < 2) return;
    const int first = any(able);
    able.erase(std::find(able.begin(), able.end(), first));
    const int second = any(able);
    std::vector<Use> a = choose_uses();
    std::vector<Use> b = choose_uses();
    std::erase_if(b, [&](const Use& use) {
      return std::any_of(a.begin(), a.end(), [&](const Use& other) { return other.block == use.block; });
    });
    order_uses(first, a);
    order_uses(second, b);
    const int flag = next_flag_++;
    note_uses(first, order_.submit(first, thread_), a);
    Command& c = put(Op::Kernel, first);
    c.uses = std::move(a);
    c.needs = flag;
    for (int n = pick(0, 3); n > 0; --n) {
      if (style_.stream_ordered && chance(20)) {
        malloc_async();
      } else {
        malloc_plain();
        if (chance(60)) b.push_back(part_of(blocks_.back(), true));
      }
    }
    order_uses(second, b);
    note_uses(second, order_.submit(second, thread_), b);
    Command& d = put(Op::Kernel, second);
    d.uses = std::move(b);
    d.sets = flag;
  }

  // Another thread frees while this one's launch is on its way into the driver; then what was launched
  // on is freed and used again.
  void overtaken() {
    auto mine_now = live(context_);
    const int lane = choose_lane();
    if (lane < 0 || mine_now.empty() || capture_.lane >= 0) return;
    BlockModel& block = *any(mine_now);
    const std::vector<Use> uses{part_of(block, true)};
    order_uses(lane, uses);
    note_uses(lane, order_.submit(lane, thread_), uses);
    Command& launch = put(Op::Kernel, lane);
    launch.uses = uses;
    launch.entry = pick(1, 2);
    launch.nested = 1;
    const int self = std::exchange(thread_, (thread_ + 1) % style_.threads);
    auto theirs = live(context_);
    if (!theirs.empty()) free_plain(*any(theirs));
    thread_ = self;
    free_plain(block);
    malloc_plain();
    const int other = choose_lane();
    if (other < 0) return;
    const std::vector<Use> again{part_of(blocks_.back(), true)};
    note_uses(other, order_.submit(other, thread_), again);
    put(Op::Kernel, other).uses = again;
  }

  void fill() {
    auto of = live(context_);
    const int lane = choose_lane();
    if (lane < 0 || of.empty()) return;
    BlockModel& block = *any(of);
    put_in_order(lane, block.uses, true);
    note(block.uses, {lane, order_.submit(lane, thread_), true});
    put(Op::Memset, lane).block = block.id;
  }

  void copy_block() {
    const bool cross = style_.cross && contexts_.size() > 1 && capture_.lane < 0 && chance(40);
    auto to = live(context_);
    auto from = live(context_, cross);
    const int lane = choose_lane();
    if (lane < 0 || to.empty() || from.empty()) return;
    BlockModel& target = *any(to);
    BlockModel& source = *any(from);
    if (&target == &source) return;
    put_in_order(lane, source.uses, false);
    put_in_order(lane, target.uses, true);
    const int number = order_.submit(lane, thread_);
    note(target.uses, {lane, number, true});
    note(source.uses, {lane, number, false});
    Command& c = put(Op::CopyBlock, lane);
    c.block = target.id;
    c.other = source.id;
    c.bytes = std::min(target.bytes, source.bytes);
  }

  void copy_to_host() {
    auto of = live(context_);
    const int lane = choose_lane();
    if (lane < 0 || of.empty()) return;
    BlockModel& block = *any(of);
    const int buffer = style_.synced ? pick(0, kHostBuffers - 1) : thread_ % kHostBuffers;
    auto& host = host_buffers_[static_cast<std::size_t>(buffer)];
    put_in_order(lane, block.uses, false);
    put_in_order(lane, host, true);
    const int number = order_.submit(lane, thread_);
    note(block.uses, {lane, number, false});
    host = {{lane, number, true}};
    visible_[static_cast<std::size_t>(context_)].push_back(order_.lane_clock(lane));
    Command& c = put(Op::CopyToHost, lane);
    c.block = block.id;
    c.other = buffer;
    if (!chance(60)) return;
    // The result is read right after the source has been freed.
    if (chance(80)) free_plain(block);
    host_read(buffer);
  }

  void copy_from_host() {
    auto of = live(context_);
    const int lane = choose_lane();
    if (lane < 0 || of.empty()) return;
    BlockModel& block = *any(of);
    const int buffer = style_.synced ? pick(0, kHostBuffers - 1) : thread_ % kHostBuffers;
    auto& host = host_buffers_[static_cast<std::size_t>(buffer)];
    put_in_order(lane, block.uses, true);
    put_in_order(lane, host, false);
    const int number = order_.submit(lane, thread_);
    note(block.uses, {lane, number, true});
    host.push_back({lane, number, false});
    Command& c = put(Op::CopyFromHost, lane);
    c.block = block.id;
    c.other = buffer;
  }

  void host_read(int buffer) {
    auto& host = host_buffers_[static_cast<std::size_t>(buffer)];
    for (const int lane : Order::unordered(host, order_.host(thread_), false)) {
      if (!host_may_wait()) return;
      host_waits(lane);
    }
    if (!Order::unordered(host, order_.host(thread_), false).empty()) return;
    put(Op::HostRead).other = buffer;
  }

  void host_function() {
    const int lane = choose_lane();
    if (lane < 0) return;
    put(Op::HostFunction, lane);
    order_.submit(lane, thread_);
    visible_[static_cast<std::size_t>(context_)].push_back(order_.lane_clock(lane));
  }

  void create_stream() {
    int alive = 0;
    for (int i = 0; i < order_.lanes(); ++i) alive += order_.lane(i).alive && order_.lane(i).stream >= kFirstStream;
    if (alive >= style_.max_streams) return;
    Command& c = put(Op::CreateStream);
    c.stream = next_stream_++;
    c.flags = chance(60) ? 1 : 0;
    order_.add_lane({.stream = c.stream, .context = context_, .thread = thread_, .blocking = c.flags == 0});
  }

  void destroy_stream() {
    const int lane = choose_lane();
    if (lane < 0 || order_.lane(lane).stream < kFirstStream) return;
    put(Op::DestroyStream, lane);
    order_.lane(lane).alive = false;
  }

  void event_traffic() {
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

  void host_sync() {
    if (!host_may_wait()) return;
    const int lane = choose_lane();
    if (lane >= 0 && chance(70)) return host_waits(lane);
    if (capture_.lane >= 0) return;
    put(Op::ContextSync);
    sync_context(context_);
  }

  void capture_step() {
    if (capture_.lane < 0) {
      const int lane = choose_lane(true);
      if (lane < 0) return;
      capture_ = {};
      capture_.lane = lane;
      capture_.thread = thread_;
      capture_.relaxed = chance(70);
      capture_.graph.context = context_;
      capture_.graph.thread = thread_;
      order_.lane(lane).capturing = true;
      put(Op::CaptureBegin, lane).flags = capture_.relaxed ? 1 : 0;
      return;
    }
    if (thread_ != capture_.thread) return;
    const int kept = std::exchange(context_, capture_.graph.context);
    if (capture_.graph.uses.empty() || chance(50)) {
      std::vector<Use> uses = choose_uses();
      capture_.graph.uses.insert(capture_.graph.uses.end(), uses.begin(), uses.end());
      put(Op::Kernel, capture_.lane).uses = std::move(uses);
    } else {
      end_capture();
    }
    context_ = kept;
  }

  void end_capture() {
    GraphModel graph = std::move(capture_.graph);
    graph.id = next_graph_++;
    put(Op::CaptureEnd, capture_.lane).other = graph.id;
    order_.lane(capture_.lane).capturing = false;
    capture_ = {};
    put(Op::Instantiate).other = graph.id;
    graph.executable = true;
    graphs_.push_back(std::move(graph));
  }

  void graph_step() {
    std::vector<GraphModel*> of;
    for (GraphModel& graph : graphs_) {
      if ((graph.executable || graph.template_alive) && mine(graph.thread) && graph.context == context_) of.push_back(&graph);
    }
    if (of.empty()) return;
    GraphModel& graph = *any(of);
    if (chance(25)) {
      const bool exec = graph.executable && chance(60);
      if (!exec && !graph.template_alive) return;
      put(exec ? Op::DestroyExec : Op::DestroyGraph).other = graph.id;
      (exec ? graph.executable : graph.template_alive) = false;
      return;
    }
    const int lane = choose_lane();
    if (lane < 0 || !graph.executable) return;
    order_uses(lane, graph.uses);
    note_uses(lane, order_.submit(lane, thread_), graph.uses);
    put(Op::Launch, lane).other = graph.id;
  }

  void context_step() {
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
    for (BlockModel& block : blocks_) block.alive = block.alive && block.context != kFirstContext;
    std::erase_if(graphs_, [](const GraphModel& g) { return g.context == kFirstContext; });
    std::erase_if(events_, [](const EventModel& e) { return e.context == kFirstContext; });
    context_ = kept;
  }

  static int device_of(int context) { return context == 1 ? 1 : 0; }

  void one() {
    if (style_.nested && chance(6)) return overtaken();
    const int dice = pick(0, 99);
    if (dice < 22) return style_.stream_ordered && chance(style_.ordered_share) ? malloc_async() : malloc_plain();
    if (dice < 40) return free_any();
    if (dice < 62) return kernel();
    if (dice < 65) return fill();
    if (dice < 69) return copy_block();
    if (dice < 74) return style_.host_view ? (chance(60) ? copy_to_host() : chance(50) ? copy_from_host() : host_function()) : kernel();
    if (dice < 77) return chance(60) ? create_stream() : style_.streams_end ? destroy_stream() : create_stream();
    if (dice < 80) return event_traffic();
    if (dice < 81 + style_.syncs / 3) return host_sync();
    if (dice < 84) return style_.mutual ? mutual() : kernel();
    if (dice < 90) return style_.captures ? (chance(60) ? capture_step() : graph_step()) : kernel();
    if (dice < 91) return style_.trims && host_may_wait() ? (void)put(Op::EmptyCache) : kernel();
    if (dice < 93) return context_step();
    if (style_.lazy && chance(80)) return kernel();
    put(Op::Step).bytes = static_cast<Bytes>(pick(1, 6));
  }

  const Style& style_;
  std::mt19937_64 random_;
  Order order_;
  Program program_;
  int thread_ = 0;
  int context_ = 0;
  bool context_made_ = false;
  std::vector<int> contexts_;
  std::deque<BlockModel> blocks_;  // references stay good
  std::vector<EventModel> events_;
  std::vector<GraphModel> graphs_;
  std::vector<std::vector<UseModel>> host_buffers_;
  std::vector<std::vector<Clock>> visible_;  // by context
  Capture capture_;
  int next_block_ = 0, next_event_ = 0, next_graph_ = 0, next_stream_ = kFirstStream, next_flag_ = 1;
};

}  // namespace

namespace {

const std::vector<Bytes> kSmallSizes{1, 512, 513, 1000, 4096, 70'000, 300_KiB, 1_MiB};
const std::vector<Bytes> kLargeSizes{1_MiB + 1, 3_MiB, 5_MiB + 512, 9_MiB, 12_MiB, 21_MiB};

class StyleMaker {
 public:
  explicit StyleMaker(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15ULL + 1) {}

  Style make() {
    Style style = anything();
    const int special = pick(0, 99);
    if (special < 15) overtaking(style);
    if (special >= 15 && special < 30) pressing(style);
    return style;
  }

 private:
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  bool one_in(int n) { return pick(1, n) == 1; }

  Bytes any(const std::vector<Bytes>& of) { return of[static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1))]; }

  Style anything() {
    Style style;
    style.threads = std::max(1, pick(-1, 3));
    style.synced = !one_in(4);
    style.commands = pick(15, 80);
    style.contexts = one_in(4) ? 2 : 1;
    style.created_context = one_in(5);
    style.legacy = !one_in(3);
    style.per_thread = one_in(3);
    style.streams_end = one_in(2);
    style.max_streams = pick(0, 5);
    if (!style.legacy && !style.per_thread) style.max_streams = std::max(1, style.max_streams);
    style.captures = one_in(3);
    style.mutual = one_in(2);
    style.host_view = one_in(2);
    style.stream_ordered = one_in(2);
    style.trims = one_in(2);
    style.syncs = pick(0, 6);
    style.ordered_share = one_in(3) ? 90 : 30;
    const int kind = pick(0, 3);  // small, large, both, one size
    for (int n = kind == 3 ? 1 : pick(1, 4); n > 0; --n) {
      const bool large = kind == 1 || (kind != 0 && one_in(2));
      style.sizes.push_back(any(large ? kLargeSizes : kSmallSizes));
    }
    return style;
  }

  // Threads that know nothing of each other and stand still in the middle of driver calls.
  void overtaking(Style& style) {
    style.threads = pick(2, 3);
    style.synced = false;
    style.nested = true;
    style.legacy = false;  // its implicit order would make them depend on each other
    style.created_context = false;
    style.contexts = 1;
    style.turns = 50;
    style.max_streams = 6;
    style.sizes.resize(1);
    style.lazy = one_in(2);
  }

  // More memory in limbo than the run-ahead budget lets grow.
  void pressing(Style& style) {
    style.sizes = {one_in(2) ? 12_MiB : 21_MiB};
    style.max_streams = pick(2, 4);
    style.stream_ordered = true;
    style.ordered_share = one_in(2) ? 90 : 40;
    style.legacy = false;
    style.syncs = 0;
    style.lazy = true;
    style.captures = false;
    style.commands = 80;
  }

  std::mt19937_64 random_;
};

}  // namespace

Style random_style(std::uint64_t seed) { return StyleMaker(seed).make(); }

Program generate(std::uint64_t seed, const Style& style) { return Generator(seed, style).make(); }

Program generate(std::uint64_t seed) { return generate(seed, random_style(seed)); }

}  // namespace custash::property
