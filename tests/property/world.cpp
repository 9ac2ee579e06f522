// SPDX-License-Identifier: MIT
// Start and end of a run, memory, and the way of a command to its calls; work is in
// world_work.cpp.
#include "tests/property/world.hpp"

#include "allocator/base/mutex.hpp"

#include <algorithm>
#include <utility>

namespace custash::property {
namespace {

thread_local CUcontext current = nullptr;

// Idle memory goes back to the driver, and custash has time for fine handles.
constexpr Nanoseconds kLongTime = 12'000'000'000;

}  // namespace

World::World(const Setup& setup, sim::RaceDetector& detector)
    : setup_(setup), detector_(detector) {
  sim::Options options;
  options.device_memory = setup.tight && !setup.bare ? 160_MiB
                          : has_large_pages()        ? 80_GiB
                                                     : 8_GiB;
  if (setup.memory != 0) options.device_memory = setup.memory;
  options.context_events = setup.context_events;
  options.log = setup.log;
  options.seed = setup.seed;
  options.advance = setup.advance;
  options.peers = true;
  // Bare, memory is never handed out twice: what is in order is so by the program alone.
  options.reuse = setup.bare ? sim::AddressReuse::Never : sim::AddressReuse::Lifo;
  sim::reset(options);
  sim::judge_by_allocator_waits();
  detector_.let_allocator_save(setup.sleeps || setup.wrap);
  current = nullptr;
  for (int device = 0; device < 2; ++device) {
    cuDevicePrimaryCtxRetain(&contexts_[device], device);
  }
  use_context(0);
  for (int i = 0; i < kHostBuffers; ++i) {
    hosts_.push_back(nullptr);
    cuMemAllocHost(&hosts_.back(), kHostBufferBytes);
    // Bare, as an allocation of the program: only its own waits count. Through the core, what
    // any thread has waited for is over for all.
    if (setup.bare)
      detector_.on_alloc(
          reinterpret_cast<Address>(hosts_.back()), kHostBufferBytes, sim::this_thread());
  }
  for (int device = 0; device < 2; ++device)
    used_at_start_.push_back(sim::used(device));
  door_ = setup.bare
              ? bare_door()
              : cached_door({.config = setup.config, .fast = setup.fast, .store = setup.store});
  if (setup.wrap) door_ = setup.wrap(std::move(door_));
}

World::~World() {
  current = nullptr;
}

void World::fail(Violation kind, const std::string& text) {
  if (failed()) return;
  kind_ = kind;
  text_ = text;
}

bool World::use_context(int context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return false;
  if (current != found->second) cuCtxSetCurrent(found->second);
  current = found->second;
  return true;
}

const CUstream* World::stream(const Command& command) {
  static const CUstream kDefaults[] = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  if (command.stream < kFirstStream) return &kDefaults[command.stream];
  const auto found = streams_.find(command.stream);
  return found == streams_.end() || found->second.context != command.context
             ? nullptr
             : &found->second.handle;
}

World::BlockObject* World::block(int id) {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? nullptr : &found->second;
}

CUresult World::run(const Command& command, std::size_t step) {
  detector_.set_step(step);
  contexts_used_.insert(command.context);
  if (command.op != Op::CreateContext && !use_context(command.context)) return CUDA_SUCCESS;
  const std::uint64_t drawn = drawn_at(step);
  if (setup_.seed % 3 == 0 && drawn % 8 == 0) {
    sim::advance_clock(kLongTime);
    if (setup_.looks) door_->look_for_idle_memory();
  }
  if (setup_.sleeps) sleep_or_wake(drawn);
  const CUresult result = dispatch(command);
  if (sim::hung())
    fail(Violation::Hang, "step " + std::to_string(step) + ": nothing can move any more");
  return result;
}

// A number for each step, the same in each run of the seed.
std::uint64_t World::drawn_at(std::size_t step) const {
  const std::uint64_t n =
      (setup_.seed + 1) * 0x9e3779b97f4a7c15ULL + step * 0xd1342543de82ef95ULL;
  return (n ^ (n >> 31U)) * 0x9e3779b97f4a7c15ULL >> 20U;
}

void World::sleep_or_wake(std::uint64_t n) {
  const std::uint64_t drawn = (n >> 13U) % 24;
  if (drawn == 0) door_->sleep(-1);
  if (drawn == 6 || drawn == 7) door_->sleep(static_cast<int>((n >> 20U) % 2));
  if (drawn == 1) door_->wake();
  if (drawn >= 2 && drawn < 6 && has_large_pages()) door_->deep_trim();
}

// So large that deep trims cut them. With less memory more comes to an end in each program.
bool World::has_large_pages() const {
  return setup_.sleeps && setup_.seed % 2 == 0;
}

CUresult World::dispatch(const Command& c) {
  switch (c.op) {
    case Op::Malloc:
    case Op::MallocAsync:
      return allocate(c);
    case Op::Free:
    case Op::FreeAsync:
    case Op::RecordStream:
      return release(c);
    case Op::CreateStream:
    case Op::DestroyStream:
    case Op::CreateContext:
    case Op::DestroyContext:
      return lifetimes(c);
    case Op::EventRecord:
    case Op::EventWait:
    case Op::EventSync:
      return events(c);
    case Op::CaptureBegin:
    case Op::CaptureEnd:
    case Op::StreamWait:
    case Op::Instantiate:
    case Op::Launch:
    case Op::DestroyGraph:
    case Op::DestroyExec:
      return graphs(c);
    case Op::EnablePeer:
    case Op::DisablePeer:
      return peers(c);
    case Op::Share:
    case Op::Unshare:
    case Op::Foreign:
    case Op::Leave:
      return sharing(c);
    case Op::EndThread:
      return CUDA_SUCCESS;  // Baton does it
    case Op::HostRead:
      detector_.on_host_access(
          sim::this_thread(),
          reinterpret_cast<Address>(hosts_[static_cast<std::size_t>(c.other)]),
          kHostBufferBytes,
          false);
      return CUDA_SUCCESS;
    case Op::StreamSync: {
      const CUstream* s = stream(c);
      return s == nullptr ? CUDA_SUCCESS : cuStreamSynchronize(*s);
    }
    case Op::ContextSync:
      return cuCtxSynchronize();
    case Op::Sleep:
      door_->sleep(-1);
      return CUDA_SUCCESS;
    case Op::DeepTrim:
      door_->deep_trim();
      return CUDA_SUCCESS;
    case Op::EmptyCache:
      return door_->empty_cache(contexts_[c.context]);
    case Op::Step:
      sim::run(c.bytes);
      return CUDA_SUCCESS;
    default:
      break;
  }
  const CUstream* s = stream(c);
  if (s == nullptr) return CUDA_SUCCESS;
  return c.op == Op::Kernel ? kernel(c, *s) : copy(c, *s);
}

CUresult World::allocate(const Command& c) {
  BlockObject fresh{.address = 0, .bytes = c.bytes, .context = c.context};
  if (c.op == Op::Malloc) {
    const CUresult result = door_->malloc(contexts_[c.context], c.bytes, &fresh.address);
    if (result != CUDA_SUCCESS) return result;
    detector_.on_alloc(fresh.address, c.bytes, sim::this_thread());
  } else {
    const CUstream* s = stream(c);
    if (s == nullptr) return CUDA_SUCCESS;
    const CUresult result =
        door_->malloc_async(contexts_[c.context], *s, c.bytes, &fresh.address);
    if (result != CUDA_SUCCESS) return result;
    // Whether the program's own use comes after the allocation was judged on bare, where the
    // driver's allocation is an operation of the stream.
    const auto of = streams_.find(c.stream);
    const bool captured = of != streams_.end() && of->second.capturing();
    if (captured) captured_[of->second.origin].push_back(c.block);
    if (setup_.bare && !captured) {
      detector_.on_alloc(fresh.address, c.bytes, sim::this_thread(), *s);
    } else {
      detector_.on_alloc(fresh.address, c.bytes, sim::this_thread());
    }
  }
  check_placement(fresh);
  blocks_[c.block] = fresh;
  return CUDA_SUCCESS;
}

void World::check_placement(const BlockObject& fresh) {
  if (fresh.address % 512 != 0) fail(Violation::Overlap, "a block is not aligned to 512 bytes");
  const auto look_at = [&](int id, const BlockObject& other) {
    if (fresh.address < other.address + other.bytes &&
        other.address < fresh.address + fresh.bytes)
      fail(Violation::Overlap, "a new block overlaps block " + std::to_string(id));
  };
  for (const auto& [id, other] : blocks_)
    look_at(id, other);
  for (const auto& [id, other] : held_)
    look_at(id, other);
  for (const auto& [id, other] : open_)
    if (!setup_.bare && other.freed) look_at_memory(id, other, fresh);
}

// Small blocks share memory with their successors in the driver, too.
void World::look_at_memory(int id, const OpenObject& open, const BlockObject& fresh) {
  if (open.block.bytes <= 1_MiB) return;
  for (const sim::Touch& mine : sim::translate(fresh.address, fresh.bytes))
    for (const sim::Touch& theirs : open.memory)
      if (mine.memory == sim::Memory::Device &&
          mine.physical < theirs.physical + theirs.bytes &&
          theirs.physical < mine.physical + mine.bytes)
        fail(Violation::Overlap,
             "a new block has memory of block " + std::to_string(id) +
                 ", which another process has open");
}

CUresult World::release(const Command& c) {
  BlockObject* found = block(c.block);
  if (found == nullptr) return CUDA_SUCCESS;
  const BlockObject gone = *found;
  const sim::ThreadId self = sim::this_thread();
  if (c.op == Op::Free) {
    blocks_.erase(c.block);
    if (const auto open = open_.find(c.block); open != open_.end()) {
      open->second.freed = true;
      detector_.on_free(gone.address, self);
      return setup_.bare ? CUDA_SUCCESS : door_->free(gone.address);
    }
    detector_.on_free(gone.address, self);
    // That a free waits for the device is nothing that a program may rely on, but for results
    // it could read next.
    if (setup_.bare) detector_.ignore_joins(self, true);
    const CUresult result = door_->free(gone.address);
    if (setup_.bare) detector_.ignore_joins(self, false);
    join_visible(gone.context);
    return result;
  }
  const CUstream* s = stream(c);
  if (s == nullptr || gone.context != c.context) return CUDA_SUCCESS;
  if (c.op == Op::RecordStream) {
    detector_.on_record_stream(gone.address, *s);
    return door_->record_stream(gone.address, *s);
  }
  const auto of = streams_.find(c.stream);
  if (of != streams_.end() && of->second.capturing()) {
    held_[c.block] = gone;
  } else {
    detector_.on_free(gone.address, self, *s);
  }
  blocks_.erase(c.block);
  if (setup_.bare) kept_.push_back(gone.address);
  return door_->free_async(gone.address, *s);
}

void World::note_visible(int context, CUstream stream) {
  visible_.push_back({context, sim::last_op(stream)});
}

void World::join_visible(int context) {
  std::vector<sim::OpId> over;
  for (const Visible& visible : visible_) {
    if (visible.context == context) over.push_back(visible.op);
  }
  // Bare, the free has waited for them. The allocator has, here or in another thread's free.
  const sim::ThreadId self = sim::this_thread();
  setup_.bare ? detector_.on_host_join(self, over) : detector_.join_learnt(self, over);
}

std::int64_t World::live_bytes(int device) const {
  std::int64_t sum = 0;
  for (const auto& [id, object] : blocks_) {
    if (device_of(object.context) == device) sum += static_cast<std::int64_t>(object.bytes);
  }
  return sum;
}

CUresult World::make_stream(const Command& c) {
  StreamObject made{.handle = nullptr, .context = c.context};
  if (c.flags == 2) {
    made.green = sim::make_green(device_of(c.context));
    if (made.green) made.handle = sim::green_stream(made.green);
    if (made.handle == nullptr) return CUDA_ERROR_UNKNOWN;
  } else {
    const CUresult result =
        cuStreamCreate(&made.handle, c.flags == 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    if (result != CUDA_SUCCESS) return result;
  }
  streams_[c.stream] = made;
  return CUDA_SUCCESS;
}

CUresult World::destroy_stream(int id) {
  const StreamObject object = streams_[id];
  streams_.erase(id);
  const CUresult result =
      door_->destroy_stream(object.handle, [&] { return cuStreamDestroy(object.handle); });
  if (!object.green || result != CUDA_SUCCESS) return result;
  return door_->destroy_context(object.green.context,
                                [&] { return sim::destroy_green(object.green); });
}

CUresult World::lifetimes(const Command& c) {
  if (c.op == Op::CreateStream) {
    return make_stream(c);
  }
  if (c.op == Op::DestroyStream) {
    const CUstream* s = stream(c);
    if (s == nullptr || c.stream < kFirstStream || streams_[c.stream].capturing())
      return CUDA_SUCCESS;
    return destroy_stream(c.stream);
  }
  if (c.op == Op::CreateContext) {
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    const auto create = reinterpret_cast<Create>(sim::resolve("cuCtxCreate_v2"));
    CUcontext made = nullptr;
    const CUresult result = create(&made, 0, device_of(c.context));
    if (result == CUDA_SUCCESS) contexts_[c.context] = current = made;
    return result;
  }
  if (c.context < kFirstContext) return CUDA_SUCCESS;
  // Everything of it ends with it.
  const auto in_it = [&](const auto& entry) { return entry.second.context == c.context; };
  for (auto& [id, s] : streams_) {
    if (s.context == c.context && s.origin == id) end_capture(id, -1);
  }
  destroy_graphs(c.context);
  for (const auto* of : {&blocks_, &held_}) {
    for (const auto& [id, object] : *of) {
      if (object.context == c.context) detector_.on_free(object.address, sim::this_thread());
    }
  }
  std::erase_if(streams_, in_it);
  std::erase_if(blocks_, in_it);
  std::erase_if(held_, in_it);
  std::erase_if(open_,
                [&](const auto& each) { return each.second.block.context == c.context; });
  std::erase_if(events_, in_it);
  const CUcontext handle = contexts_[c.context];
  contexts_.erase(c.context);
  current = nullptr;
  return door_->destroy_context(handle, [&] { return cuCtxDestroy(handle); });
}

void World::finish() {
  if (failed()) return;
  check();
  release_all();
  if (sim::hung()) fail(Violation::Hang, "nothing can move any more at the end");
  if (!setup_.bare) check_returned();
}

void World::check(bool exact) {
  for (int device = 0; device < 2; ++device) {
    const std::string wrong = door_->check(device, live_bytes(device), exact);
    if (!wrong.empty()) fail(Violation::Statistics, "at the end: " + wrong);
  }
}

void World::release_all() {
  for (auto& [id, s] : streams_) {
    use_context(s.context);
    if (s.origin == id) end_capture(id, -1);
  }
  for (const auto& [id, context] : contexts_) {
    if (use_context(id)) destroy_graphs(id);
  }
  while (!open_.empty())
    end_sharing(open_.begin()->first);
  // A free waits for the block's own device at most, on bare too: copies of other contexts come
  // first.
  for (const auto& [id, context] : contexts_) {
    if (contexts_used_.size() < 2 || !use_context(id)) continue;
    if (cuCtxSynchronize() != CUDA_SUCCESS)
      fail(Violation::Code, "the wait before the last frees fails");
  }
  while (!blocks_.empty()) {
    Command free;
    free.op = Op::Free;
    free.block = blocks_.begin()->first;
    free.context = blocks_.begin()->second.context;
    use_context(free.context);
    const CUresult result = release(free);
    if (result != CUDA_SUCCESS)
      fail(Violation::Code, "the last free of a block answers " + std::to_string(result));
  }
  for (const auto& [id, context] : contexts_) {
    use_context(id);
    if (cuCtxSynchronize() != CUDA_SUCCESS) fail(Violation::Code, "the last wait fails");
    // The first may have to record a fence, which passes when the device has seen it. The next
    // looks around guarded blocks, and the last gives their pages back.
    for (int round = 0; round < 3; ++round) {
      if (door_->empty_cache(context) != CUDA_SUCCESS)
        fail(Violation::Code, "the last empty_cache fails");
      sim::run_all();
    }
  }
}

void World::check_returned() {
  for (int device = 0; device < 2; ++device) {
    const std::string wrong = door_->check_empty(device);
    if (!wrong.empty()) fail(Violation::Statistics, "after everything was returned: " + wrong);
    const Bytes used = sim::used(device);
    if (used != used_at_start_[static_cast<std::size_t>(device)]) {
      fail(Violation::Leak,
           "device " + std::to_string(device) + " still has " + std::to_string(used) +
               " bytes in use");
    }
  }
  if (sim::live_handles() + sim::live_mappings() != 0)
    fail(Violation::Leak, "handles or mappings remain");
}

}  // namespace custash::property
