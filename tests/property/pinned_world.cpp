// SPDX-License-Identifier: MIT
// Start and end of a run, buffers, contexts; work is in pinned_world_work.cpp.
#include "tests/property/pinned_world.hpp"

#include "allocator/sleep/idle_memory.hpp"
#include "tests/property/pinned_world_calls.hpp"

#include <algorithm>

namespace custash::property {
namespace {

thread_local std::pair<std::uint64_t, CUcontext> current{};  // and since which epoch
std::uint64_t next_epoch = 1;

constexpr Bytes kOwnMemory = 96_MiB;  // no buffer is larger

CUresult no_registration(int* value, CUdevice_attribute which, CUdevice device) {
  const CUresult result = cuDeviceGetAttribute(value, which, device);
  if (which == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) *value = 0;
  return result;
}

}  // namespace

std::string to_string(const PinSetup& setup) {
  if (setup.bare) return "bare";
  const Config& c = setup.config;
  return "single_stream:" + std::to_string(c.single_stream) +
         ",run_ahead:" + std::to_string(c.run_ahead_percent) +
         ",pinned_limit:" + std::to_string(c.pinned_limit) +
         ",pinned_decay:" + std::to_string(c.pinned_decay) +
         " context_events=" + std::to_string(setup.context_events) +
         " registered=" + std::to_string(setup.registered) +
         " fast=" + std::to_string(setup.fast) +
         " advance=" + (setup.advance == sim::Advance::Told ? "told" : "seeded") +
         " schedule=" + std::to_string(setup.seed);
}

PinnedWorld::PinnedWorld(const PinSetup& setup, sim::RaceDetector& detector)
    : setup_(setup), detector_(detector), epoch_(next_epoch++) {
  sim::Options options;
  options.device_memory = 64_GiB;
  options.context_events = setup.context_events;
  options.log = false;
  options.seed = setup.seed;
  options.advance = setup.advance;
  sim::reset(options);
  sim::advance_clock(1'000'000'000'000);
  for (int device = 0; device < 2; ++device)
    cuDevicePrimaryCtxRetain(&contexts_[device], device);
  use_context(0);
  if (setup.bare) return;
  driver_ = new Driver(sim::make_driver());
  if (!setup.registered) driver_->device_get_attribute = no_registration;
  core_ = new Allocator(*driver_, setup.config);
  cache_ = new HostCache(*driver_, core_->config(), *core_);
}

PinnedWorld::~PinnedWorld() = default;

void PinnedWorld::fail(Violation kind, const std::string& text) {
  if (failed()) return;
  kind_ = kind;
  text_ = text;
}

bool PinnedWorld::use_context(int context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return false;
  const std::pair<std::uint64_t, CUcontext> wanted{epoch_, found->second};
  if (current != wanted) cuCtxSetCurrent(found->second);
  current = wanted;
  return true;
}

const CUstream* PinnedWorld::stream(const PinCommand& c) {
  static const CUstream kDefaults[] = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  if (c.stream < kFirstStream) return &kDefaults[c.stream];
  const auto found = streams_.find(c.stream);
  return found == streams_.end() || found->second.context != c.context ? nullptr
                                                                       : &found->second.handle;
}

PinnedWorld::Buffer* PinnedWorld::buffer(int id) {
  const auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : &found->second;
}

// Device memory of the stream alone, so that copies need no order but the stream's.
Address PinnedWorld::own_memory(const PinCommand& c) {
  const int stream = c.stream == kLegacy ? kLegacyNull : c.stream;
  const sim::ThreadId thread = stream == kPerThread ? sim::this_thread() : 0;
  Address& own = memory_[{c.context, stream, thread}];
  if (own == 0) {
    CUdeviceptr made = 0;
    // The program's captures are not about this.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    if (cuMemAlloc(&made, kOwnMemory) != CUDA_SUCCESS)
      fail(Violation::Code, "no device memory for a stream");
    cuThreadExchangeStreamCaptureMode(&mode);
    own = made;
    detector_.on_alloc(own, kOwnMemory, sim::this_thread());
  }
  return own;
}

// As interpose/hooks/guard_calls.cpp does it.
CUresult PinnedWorld::waited(CUresult result) {
  if (result == CUDA_SUCCESS && cache_ != nullptr)
    ours([&] {
      if (cache_->sampler() != nullptr) cache_->sampler()->waited();
      return 0;
    });
  return result;
}

CUresult PinnedWorld::run(const PinCommand& c, std::size_t step) {
  detector_.set_step(step);
  if (c.op != PinOp::CreateContext && !use_context(c.context)) return CUDA_SUCCESS;
  const CUresult result = dispatch(c);
  if (sim::hung())
    fail(Violation::Hang, "step " + std::to_string(step) + ": nothing can move any more");
  return result;
}

CUresult PinnedWorld::dispatch(const PinCommand& c) {
  switch (c.op) {
    case PinOp::Alloc:
      return alloc(c);
    case PinOp::Free:
    case PinOp::Release:
      return end_buffer(c);
    case PinOp::CreateStream:
    case PinOp::DestroyStream:
      return streams(c);
    case PinOp::CreateContext:
      return create_context(c.context);
    case PinOp::EndContext:
      return end_context(c.context);
    case PinOp::CaptureBegin:
    case PinOp::CaptureEnd:
    case PinOp::Launch:
    case PinOp::EndGraph:
      return graphs(c);
    case PinOp::ContextSync:
      return waited(cuCtxSynchronize());
    case PinOp::Empty:
      return cache_ == nullptr ? CUDA_SUCCESS
                               : ours([&] { return cache_->reclaim().empty().code(); });
    case PinOp::Idle:
      sim::advance_clock(c.bytes * 1'000'000'000);
      if (cache_ != nullptr && setup_.looks) look_for_idle_buffers();
      return CUDA_SUCCESS;
    case PinOp::Step:
      sim::run(c.bytes);
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (c.op == PinOp::HostWrite || c.op == PinOp::HostRead) {
    if (const Buffer* found = buffer(c.buffer))
      detector_.on_host_access(sim::this_thread(),
                               reinterpret_cast<Address>(found->address),
                               found->bytes,
                               c.op == PinOp::HostWrite);
    return CUDA_SUCCESS;
  }
  const CUstream* s = stream(c);
  if (s == nullptr) return CUDA_SUCCESS;
  if (c.op == PinOp::EventRecord || c.op == PinOp::EventWait) return events(c, *s);
  if (c.op == PinOp::StreamSync) return waited(cuStreamSynchronize(*s));
  return work(c, *s);
}

void PinnedWorld::look_for_idle_buffers() {
  ours([&] {
    if (cache_->reclaim().decay_due() <= driver_->now())
      (void)IdleMemory(*core_).while_still([&] { (void)cache_->reclaim().decay_now(); });
    return 0;
  });
}

CUresult PinnedWorld::alloc(const PinCommand& c) {
  Buffer fresh{.bytes = c.bytes, .context = c.context};
  CUcontext const context = contexts_[c.context];
  const CUresult result =
      cache_ == nullptr ? cuMemHostAlloc(&fresh.address, c.bytes, c.flags) : ours([&] {
        if (setup_.fast) fresh.address = cache_->try_allocate(context, c.bytes, c.flags);
        if (fresh.address != nullptr) return CUDA_SUCCESS;
        return cache_->allocate(context, c.bytes, c.flags, &fresh.address).code();
      });
  if (result != CUDA_SUCCESS) return result;
  hand_over(fresh);
  detector_.on_alloc(reinterpret_cast<Address>(fresh.address), c.bytes, sim::this_thread());
  check_placement(fresh);
  buffers_[c.buffer] = fresh;
  return CUDA_SUCCESS;
}

// The last owner's thread comes before the next one's: the cache's lock sees to that.
void PinnedWorld::hand_over(const Buffer& fresh) {
  const auto address = reinterpret_cast<Address>(fresh.address);
  for (const Freed& old : freed_) {
    if (old.address < address + fresh.bytes && address < old.address + old.bytes &&
        old.thread != sim::this_thread())
      detector_.thread_sync(old.thread, sim::this_thread());
  }
}

void PinnedWorld::check_placement(const Buffer& fresh) {
  const auto address = reinterpret_cast<Address>(fresh.address);
  if (address % (fresh.bytes < 4_KiB ? 512 : 4_KiB) != 0)
    fail(Violation::Overlap, "a buffer is not aligned");
  for (const auto& [id, other] : buffers_) {
    const auto theirs = reinterpret_cast<Address>(other.address);
    if (address < theirs + other.bytes && theirs < address + fresh.bytes)
      fail(Violation::Overlap, "a new buffer overlaps buffer " + std::to_string(id));
  }
}

CUresult PinnedWorld::end_buffer(const PinCommand& c) {
  const Buffer* found = buffer(c.buffer);
  if (found == nullptr) return CUDA_SUCCESS;
  const Buffer gone = *found;
  buffers_.erase(c.buffer);
  const sim::ThreadId self = sim::this_thread();
  detector_.on_free(reinterpret_cast<Address>(gone.address), self);
  freed_.push_back({reinterpret_cast<Address>(gone.address), gone.bytes, self});
  CUresult result = CUDA_SUCCESS;
  if (cache_ != nullptr) {
    result = ours([&] {
      if (c.op == PinOp::Release) return cache_->free_behind_streams(gone.address)->code();
      if (setup_.fast && cache_->try_free(gone.address)) return CUDA_SUCCESS;
      return cache_->free(gone.address)->code();
    });
  } else if (c.op == PinOp::Release || c.other != 0) {
    kept_.emplace_back(gone.context, gone.address);
  } else {
    detector_.ignore_joins(self, true);
    result = cuMemFreeHost(gone.address);
    detector_.ignore_joins(self, false);
  }
  if (cache_ == nullptr && c.op == PinOp::Free) {
    // Of the wait of bare CUDA a program may rely on what it could read next.
    std::vector<sim::OpId> over;
    for (const auto& [context, op] : visible_) {
      if (context == gone.context) over.push_back(op);
    }
    detector_.on_host_join(self, over);
  }
  return result;
}

void PinnedWorld::free_all_kept(int context) {
  for (const auto& [of, address] : kept_) {
    if (of == context) cuMemFreeHost(address);
  }
  std::erase_if(kept_, [&](const auto& kept) { return kept.first == context; });
}

CUresult PinnedWorld::create_context(int context) {
  using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
  const auto create = reinterpret_cast<Create>(sim::resolve("cuCtxCreate_v2"));
  CUcontext made = nullptr;
  const CUresult result = create(&made, 0, device_of(context));
  if (result == CUDA_SUCCESS) contexts_[context] = made;
  current = {epoch_, made};
  return result;
}

CUresult PinnedWorld::end_context(int context) {
  for (auto& [id, s] : streams_) {
    if (s.context == context && s.capturing) end_capture(id, -1);
  }
  for (auto& [id, graph] : graphs_) {
    if (graph.context != context) continue;
    cuGraphExecDestroy(graph.exec);
    cuGraphDestroy(graph.graph);
  }
  const sim::ThreadId self = sim::this_thread();
  for (const auto& [id, gone] : buffers_) {
    if (gone.context == context)
      detector_.on_free(reinterpret_cast<Address>(gone.address), self);
  }
  for (const auto& [key, address] : memory_) {
    if (std::get<0>(key) == context) detector_.on_free(address, self);
  }
  const auto in_it = [&](const auto& entry) { return entry.second.context == context; };
  std::erase_if(streams_, in_it);
  std::erase_if(graphs_, in_it);
  std::erase_if(buffers_, in_it);
  std::erase_if(events_, [&](const auto& entry) { return entry.second.second == context; });
  std::erase_if(memory_,
                [&](const auto& entry) { return std::get<0>(entry.first) == context; });
  std::erase_if(visible_, [&](const auto& entry) { return entry.first == context; });
  if (cache_ == nullptr) free_all_kept(context);

  CUcontext const handle = contexts_[context];
  const bool primary = context < kFirstContext;
  const auto end = [&] {
    return primary ? cuDevicePrimaryCtxReset(device_of(context)) : cuCtxDestroy(handle);
  };
  CUresult result = CUDA_SUCCESS;
  if (cache_ == nullptr) {
    result = end();
  } else {  // as interpose/hooks/lifetime.cpp does it
    ours([&] {
      cache_->context_destroyed(handle);
      core_->context_destroyed(handle);
      return 0;
    });
    result = end();
    ours([&] {
      core_->context_gone(handle);
      cache_->reclaim().context_gone(handle);
      return 0;
    });
  }
  epoch_ = next_epoch++;
  contexts_.erase(context);
  if (primary) cuDevicePrimaryCtxRetain(&contexts_[context], device_of(context));
  use_context(0);
  return result;
}

void PinnedWorld::finish() {
  if (failed()) return;
  check(true);
  release_all();
  if (sim::hung()) fail(Violation::Hang, "nothing can move any more at the end");
  if (cache_ != nullptr) check_returned();
}

void PinnedWorld::check(bool exact) {
  if (cache_ == nullptr) return;
  if (!cache_->validate() || !core_->validate())
    fail(Violation::Statistics, "validate() is false");
  const HostStats stats = ours([&] { return cache_->stats(); });
  std::int64_t live = 0;
  for (const auto& [id, each] : buffers_)
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
  for (auto& [id, s] : streams_) {
    use_context(s.context);
    if (s.capturing) end_capture(id, -1);
  }
  for (auto& [id, graph] : graphs_) {
    use_context(graph.context);
    cuGraphExecDestroy(graph.exec);
    cuGraphDestroy(graph.graph);
  }
  graphs_.clear();
  for (const auto& [id, context] : contexts_) {
    use_context(id);
    if (cuCtxSynchronize() != CUDA_SUCCESS) fail(Violation::Code, "the last wait fails");
  }
  while (!buffers_.empty()) {
    PinCommand free{.op = PinOp::Free};
    free.buffer = buffers_.begin()->first;
    use_context(buffers_.begin()->second.context);
    if (const CUresult result = end_buffer(free); result != CUDA_SUCCESS)
      fail(Violation::Code, "the last free of a buffer answers " + std::to_string(result));
  }
  for (int round = 0; cache_ != nullptr && round < 2; ++round) {
    if (ours([&] { return cache_->reclaim().empty().code(); }) != CUDA_SUCCESS)
      fail(Violation::Code, "the last empty() fails");
    sim::run_all();
  }
  for (const auto& [id, context] : contexts_) {
    use_context(id);
    free_all_kept(id);
  }
}

void PinnedWorld::check_returned() {
  check(true);
  for (const auto& [name, value] : ours([&] { return cache_->stats(); }).flatten()) {
    if (name.find(".current") != std::string::npos && value != 0)
      fail(Violation::Statistics,
           "after everything was returned: " + name + " is " + std::to_string(value));
  }
  if (sim::live_host_blocks() != 0)
    fail(Violation::Leak, std::to_string(sim::live_host_blocks()) + " segments remain");
}

}  // namespace custash::property
