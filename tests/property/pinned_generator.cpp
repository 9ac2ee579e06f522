// SPDX-License-Identifier: MIT
// What comes next; what of streams and contexts is this generator's own.
#include "tests/property/pinned_generator.hpp"

#include <algorithm>

namespace custash::property {

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

void PinnedGenerator::turn() {
  Frame::turn([](const PinCommand&) { return 7; });
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

// False where a capture forbids it.
bool PinnedGenerator::host_waits_for_all(const std::vector<UseModel>& uses, bool write) {
  for (const int lane : Order::unordered(uses, order_.host(thread_), write))
    host_waits(lane);
  return Order::unordered(uses, order_.host(thread_), write).empty();
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
  if (style_.created_context && !context_made_) return create_context();
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
  close_context(context);
  for (Buffer& buffer : buffers_) {
    buffer.alive = buffer.alive && buffer.context != context;
    std::erase_if(buffer.named, [&](int lane) { return order_.lane(lane).context == context; });
  }
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
