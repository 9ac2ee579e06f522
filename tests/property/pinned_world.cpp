// SPDX-License-Identifier: MIT
// Start and end of a run, and buffers; work is in pinned_world_work.cpp.
#include "tests/property/pinned_world.hpp"

#include "allocator/sleep/idle_memory.hpp"

#include <utility>

namespace custash::property {
namespace {

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

PinnedWorld::PinnedWorld(const Setup& setup, sim::RaceDetector& detector)
    : WorldBase(setup, detector, {.device_memory = 64_GiB}) {
  sim::advance_clock(1'000'000'000'000);
  open_door();
  if (Allocator* const core = door_->core())
    cache_ = new HostCache(core->driver(), core->config(), *core);
}

CUresult PinnedWorld::dispatch(const Command& c) {
  switch (c.op) {
    case Op::HostAlloc:
      return alloc(c);
    case Op::HostFree:
    case Op::HostRelease:
      return end_buffer(c);
    case Op::BufferWrite:
    case Op::BufferRead:
      host_access(c);
      return CUDA_SUCCESS;
    case Op::HostName:
    case Op::CopyIn:
    case Op::CopyOut:
    case Op::Kernel: {
      const CUstream* s = stream(c);
      return s == nullptr ? CUDA_SUCCESS : work(c, *s);
    }
    case Op::StreamSync:
    case Op::ContextSync:
      return waited(WorldBase::dispatch(c));
    case Op::EmptyCache:
      return cache_ == nullptr ? CUDA_SUCCESS : empty();
    case Op::CaptureEnd:
      return end_capture(c);
    case Op::EndGraph:
      return end_graph(c);
    case Op::Idle:
      sim::advance_clock(c.bytes * 1'000'000'000);
      if (cache_ != nullptr && setup_.looks) look_for_idle_buffers();
      return CUDA_SUCCESS;
    default:
      return WorldBase::dispatch(c);
  }
}

CUresult PinnedWorld::empty() {
  return door_->ours([&] { return cache_->reclaim().empty().code(); });
}

void PinnedWorld::look_for_idle_buffers() {
  door_->ours([&] {
    if (cache_->reclaim().decay_due() <= door_->core()->driver().now())
      (void)IdleMemory(*door_->core()).while_still([&] {
        (void)cache_->reclaim().decay_now();
      });
    return CUDA_SUCCESS;
  });
}

CUresult PinnedWorld::alloc(const Command& c) {
  CUcontext const context = contexts_[c.context];
  const auto flags = static_cast<unsigned>(c.flags);
  void* made = nullptr;
  const CUresult result =
      cache_ == nullptr ? cuMemHostAlloc(&made, c.bytes, flags) : door_->ours([&] {
        if (setup_.fast) made = cache_->try_allocate(context, c.bytes, flags);
        if (made != nullptr) return CUDA_SUCCESS;
        return cache_->allocate(context, c.bytes, flags, &made).code();
      });
  if (result != CUDA_SUCCESS) return result;
  const BlockObject fresh{reinterpret_cast<Address>(made), c.bytes, c.context};
  hand_over(fresh);
  detector_.on_alloc(fresh.address, c.bytes, sim::this_thread());
  check_placement(fresh);
  blocks_[c.block] = fresh;
  return CUDA_SUCCESS;
}

// The last owner's thread comes before the next one's: the cache's lock sees to that.
void PinnedWorld::hand_over(const BlockObject& fresh) {
  for (const auto& [old, thread] : freed_) {
    if (old.address < fresh.address + fresh.bytes && fresh.address < old.address + old.bytes &&
        thread != sim::this_thread())
      detector_.thread_sync(thread, sim::this_thread());
  }
}

void PinnedWorld::check_placement(const BlockObject& fresh) {
  if (fresh.address % (fresh.bytes < 4_KiB ? 512 : 4_KiB) != 0)
    fail(Violation::Overlap, "a buffer is not aligned");
  check_overlap(fresh);
}

void PinnedWorld::host_access(const Command& c) {
  if (const BlockObject* found = block(c.block))
    detector_.on_host_access(
        sim::this_thread(), found->address, found->bytes, c.op == Op::BufferWrite);
}

CUresult PinnedWorld::end_buffer(const Command& c) {
  const BlockObject* found = block(c.block);
  if (found == nullptr) return CUDA_SUCCESS;
  const BlockObject gone = *found;
  void* const buffer = pointer(gone.address);
  blocks_.erase(c.block);
  const sim::ThreadId self = sim::this_thread();
  detector_.on_free(gone.address, self);
  freed_.push_back({gone, self});
  if (cache_ != nullptr)
    return door_->ours([&] {
      if (c.op == Op::HostRelease) return cache_->free_behind_streams(buffer)->code();
      if (setup_.fast && cache_->try_free(buffer)) return CUDA_SUCCESS;
      return cache_->free(buffer)->code();
    });
  CUresult result = CUDA_SUCCESS;
  if (c.op == Op::HostRelease || c.other != 0) {
    kept_.push_back(gone);
  } else {
    detector_.ignore_joins(self, true);
    result = cuMemFreeHost(buffer);
    detector_.ignore_joins(self, false);
  }
  // Of the wait of bare CUDA a program may rely on what it could read next.
  if (c.op == Op::HostFree) detector_.on_host_join(self, visible_of(gone.context));
  return result;
}

void PinnedWorld::free_all_kept(int context) {
  const auto in_it = [&](const BlockObject& kept) { return kept.context == context; };
  for (const BlockObject& kept : kept_) {
    if (in_it(kept)) cuMemFreeHost(pointer(kept.address));
  }
  std::erase_if(kept_, in_it);
}

void PinnedWorld::forget(int context) {
  const auto in_it = [&](const auto& entry) { return std::get<0>(entry.first) == context; };
  for (const auto& entry : memory_) {
    if (in_it(entry)) detector_.on_free(entry.second, sim::this_thread());
  }
  std::erase_if(memory_, in_it);
  free_all_kept(context);
}

// As interpose/hooks/lifetime.cpp does it.
CUresult PinnedWorld::destroy_context(int context, CUcontext handle) {
  if (cache_ == nullptr) return WorldBase::destroy_context(context, handle);
  door_->ours([&] { return cache_->context_destroyed(handle), CUDA_SUCCESS; });
  const CUresult result = WorldBase::destroy_context(context, handle);
  door_->ours([&] { return cache_->reclaim().context_gone(handle), CUDA_SUCCESS; });
  return result;
}

void PinnedWorld::check(bool exact) {
  if (cache_ == nullptr) return;
  if (!cache_->validate()) fail(Violation::Statistics, "validate() is false");
  for (int device = 0; device < 2; ++device) {
    const std::string wrong = door_->check(device, 0, true);
    if (!wrong.empty()) fail(Violation::Statistics, wrong);
  }
  const HostStats stats = cache_->stats();
  std::int64_t live = 0;
  for (const auto& [id, each] : blocks_)
    live += static_cast<std::int64_t>(each.bytes);
  const std::int64_t asked = stats.requested_bytes.current;
  if (exact ? asked != live : asked > live)
    fail(Violation::Statistics,
         "requested_bytes is " + std::to_string(asked) + ", live " + std::to_string(live));
  if (stats.in_use_bytes.current < asked ||
      stats.active_bytes.current < stats.in_use_bytes.current ||
      stats.allocated_bytes.current < stats.active_bytes.current)
    fail(Violation::Statistics, "the counters of bytes contradict each other");
}

void PinnedWorld::release_all() {
  end_graphs();
  wait_for_contexts("the last wait fails");
  while (!blocks_.empty()) {
    Command free;
    free.op = Op::HostFree;
    free.block = blocks_.begin()->first;
    use_context(blocks_.begin()->second.context);
    if (const CUresult result = end_buffer(free); result != CUDA_SUCCESS)
      fail(Violation::Code, "the last free of a buffer answers " + std::to_string(result));
  }
  for (int round = 0; cache_ != nullptr && round < 2; ++round) {
    if (empty() != CUDA_SUCCESS) fail(Violation::Code, "the last empty() fails");
    sim::run_all();
  }
  for (const auto& [id, context] : contexts_) {
    use_context(id);
    free_all_kept(id);
  }
}

void PinnedWorld::check_returned() {
  check(true);
  for (const auto& [name, value] : cache_->stats().flatten()) {
    if (name.find(".current") != std::string::npos && value != 0)
      fail(Violation::Statistics,
           "after everything was returned: " + name + " is " + std::to_string(value));
  }
  if (sim::live_host_blocks() != 0)
    fail(Violation::Leak, std::to_string(sim::live_host_blocks()) + " segments remain");
}

}  // namespace custash::property
