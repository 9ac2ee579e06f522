// SPDX-License-Identifier: MIT
// What comes next; what of streams, events and contexts is this generator's own.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

Generator::Generator(std::uint64_t seed, const Style& style)
    : Frame(seed, style), over_(static_cast<std::size_t>(style.threads)) {
  program_.memory = style.memory;
  host_buffers_.resize(kHostBuffers);
}

Program Generator::make() {
  return Frame::make(pick(0, std::min(style_.max_streams, 3)));
}

std::vector<BlockModel*> Generator::live(int context, bool stranger) {
  std::vector<BlockModel*> found;
  for (BlockModel& block : blocks_) {
    if (block.alive && !block.captured && (block.context == context) != stranger &&
        mine(block.thread))
      found.push_back(&block);
  }
  return found;
}

std::vector<BlockModel*> Generator::in_reach(int context) {
  std::vector<BlockModel*> found;
  for (BlockModel& block : blocks_) {
    if (block.alive && !block.captured && mine(block.thread) && reaches(context, block.context))
      found.push_back(&block);
  }
  return found;
}

void Generator::destroy_stream() {
  const int lane = choose_lane();
  if (lane < 0 || order_.lane(lane).stream < kFirstStream) return;
  put(Op::DestroyStream, lane);
  order_.lane(lane).alive = false;
  for (GraphModel& graph : graphs_) {
    graph.spent =
        graph.spent || (order_.lane(lane).green &&
                        std::count(graph.lanes.begin(), graph.lanes.end(), lane) != 0);
  }
}

void Generator::event_traffic() {
  const int lane = choose_lane();
  if (lane < 0) return;
  if (events_.empty() || chance(50)) return record_event(lane);
  EventModel& event = any(events_);
  if (!mine(event.thread)) return;
  if (chance(20) && free_to_call()) {
    put(Op::EventSync).other = event.id;
    join(order_.host(thread_), event.clock);
    return share_host();
  }
  wait_event(lane, event);
}

void Generator::host_sync() {
  if (!free_to_call()) return;
  const int lane = choose_lane();
  if (lane >= 0 && chance(70)) return host_waits(lane);
  if (capture_.lane >= 0) return;
  put(Op::ContextSync);
  sync_context(context_);
}

bool Generator::something_else() {
  std::vector<void (Generator::*)()> able;
  if (style_.created_contexts > 0) able.push_back(&Generator::context_step);
  if (style_.peers) able.push_back(&Generator::peer_step);
  if (style_.shared) able.push_back(&Generator::sharing_step);
  if (style_.threads_end) able.push_back(&Generator::end_thread);
  if (able.empty()) return false;
  (this->*any(able))();
  return true;
}

void Generator::one() {
  if (style_.captures && chance(style_.capture_share))
    return chance(capture_.lane >= 0 ? 85 : 30) ? capture_step() : graph_step();
  if (chance(style_.other_share) && something_else()) return;
  if (chance(style_.reuse_share)) return reuse();
  if (style_.nested && chance(6)) return overtaken();
  const int dice = pick(0, 99);
  if (dice < 22)
    return style_.stream_ordered && chance(style_.ordered_share) ? malloc_async()
           : malloc_plain()                                      ? void()
                                                                 : free_any();
  if (dice < 40) return free_any();
  if (dice < 62) return kernel();
  if (dice < 65) return fill();
  if (dice < 69) return copy_block();
  if (dice < 74)
    return style_.host_view ? (chance(60)   ? copy_with_host(Op::CopyToHost)
                               : chance(50) ? copy_with_host(Op::CopyFromHost)
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
  if (dice < 91) return style_.trims && free_to_call() ? (void)put(Op::EmptyCache) : kernel();
  if (dice < 93) return context_step();
  if (dice < 96 && something_else()) return;
  if (style_.lazy && chance(80)) return kernel();
  put(Op::Step).bytes = static_cast<Bytes>(pick(1, 6));
}

Program generate(std::uint64_t seed) {
  const Style style = random_style(seed);
  return Generator(seed, style).make();
}

}  // namespace custash::property
