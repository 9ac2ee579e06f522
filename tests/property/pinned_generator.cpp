// SPDX-License-Identifier: MIT
// What comes next; what of streams and contexts is this generator's own.
#include "tests/property/pinned_generator.hpp"

#include <algorithm>

namespace custash::property {

Program PinnedGenerator::make() {
  return Frame::make(std::min(style_.max_streams, 2));
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
  if (dice < 91 && style_.trims && free_to_call()) return (void)put(Op::EmptyCache);
  if (dice < 92) {
    put(Op::Idle).bytes = static_cast<Bytes>(pick(1, 200));
    return;
  }
  if (dice < 95) return context_step();
  if (style_.lazy && chance(80)) return work();
  put(Op::Step).bytes = static_cast<Bytes>(pick(1, 6));
}

void PinnedGenerator::destroy_stream() {
  const int lane = choose_lane();
  if (lane < 0 || order_.lane(lane).stream < kFirstStream) return;
  for (BlockModel& buffer : blocks_) {  // what was named has to live until the free
    const bool named =
        std::find(buffer.named.begin(), buffer.named.end(), lane) != buffer.named.end();
    if (buffer.alive && named) return;
  }
  put(Op::DestroyStream, lane);
  order_.lane(lane).alive = false;
}

void PinnedGenerator::context_step() {
  if (capture_.lane >= 0 || !style_.synced) return;
  if (next_context_ - kFirstContext < style_.created_contexts) return create_context();
  const bool may_end = context_ >= kFirstContext || style_.resets;
  if (!may_end || !chance(30)) return;
  // Work of other contexts with its buffers, freed ones too, ends before it.
  for (BlockModel& buffer : blocks_) {
    if (buffer.context == context_) host_waits_for_all(buffer.uses, true);
  }
  put(Op::DestroyContext);
  sync_context(context_);
  forget_context(context_);
}

void PinnedGenerator::forget_context(int context) {
  close_context(context);
  for (BlockModel& buffer : blocks_) {
    buffer.alive = buffer.alive && buffer.context != context;
    std::erase_if(buffer.named, [&](int lane) { return order_.lane(lane).context == context; });
  }
  if (context < kFirstContext) {
    open_context(context);  // reset: as new
  } else {
    context_ = 0;
  }
}

Program generate_pinned(std::uint64_t seed) {
  const Style style = random_pinned_style(seed);
  return PinnedGenerator(seed, style).make();
}

}  // namespace custash::property
