// SPDX-License-Identifier: MIT
// Start and end of a run, memory, and the way of a command to its calls; work is in
// world_work.cpp.
#include "tests/property/world.hpp"

#include <utility>

namespace custash::property {
namespace {

// Idle memory goes back to the driver, and custash has time for fine handles.
constexpr Nanoseconds kLongTime = 12'000'000'000;

// So large that deep trims cut them. With less memory more comes to an end in each program.
bool has_large_pages(const Setup& setup) {
  return setup.sleeps && setup.seed % 2 == 0;
}

sim::Options options_of_device(const Setup& setup) {
  sim::Options options;
  options.device_memory = setup.tight && !setup.bare ? 160_MiB
                          : has_large_pages(setup)   ? 80_GiB
                                                     : 8_GiB;
  if (setup.memory != 0) options.device_memory = setup.memory;
  options.peers = true;
  // Bare, memory is never handed out twice: what is in order is so by the program alone.
  options.reuse = setup.bare ? sim::AddressReuse::Never : sim::AddressReuse::Lifo;
  return options;
}

}  // namespace

World::World(const Setup& setup, sim::RaceDetector& detector)
    : WorldBase(setup, detector, options_of_device(setup)) {
  sim::judge_by_allocator_waits();
  detector_.let_allocator_save(setup.sleeps || setup.plan != nullptr);
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
  open_door();
}

void World::before(std::size_t step) {
  const std::uint64_t drawn = drawn_at(step);
  if (setup_.seed % 3 == 0 && drawn % 8 == 0) {
    sim::advance_clock(kLongTime);
    if (setup_.looks) door_->look_for_idle_memory();
  }
  if (setup_.sleeps) sleep_or_wake(drawn);
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
  if (drawn >= 2 && drawn < 6 && has_large_pages(setup_)) door_->deep_trim();
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
    case Op::EnablePeer:
    case Op::DisablePeer:
      return peers(c);
    case Op::Share:
    case Op::Unshare:
    case Op::Foreign:
    case Op::Leave:
      return sharing(c);
    case Op::HostRead:
      detector_.on_host_access(
          sim::this_thread(),
          reinterpret_cast<Address>(hosts_[static_cast<std::size_t>(c.other)]),
          kHostBufferBytes,
          false);
      return CUDA_SUCCESS;
    case Op::Sleep:
      door_->sleep(-1);
      return CUDA_SUCCESS;
    case Op::DeepTrim:
      door_->deep_trim();
      return CUDA_SUCCESS;
    case Op::EmptyCache:
      return door_->empty_cache(contexts_[c.context]);
    case Op::Kernel:
    case Op::CopyToHost:
    case Op::CopyFromHost:
    case Op::CopyBlock:
    case Op::Memset:
    case Op::HostFunction: {
      const CUstream* s = stream(c);
      if (s == nullptr) return CUDA_SUCCESS;
      return c.op == Op::Kernel ? kernel(c, *s) : copy(c, *s);
    }
    default:
      return WorldBase::dispatch(c);
  }
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
    const int origin = origin_of(c);
    if (origin >= 0) captured_[origin].push_back(c.block);
    if (setup_.bare && origin < 0) {
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
  check_overlap(fresh);
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
  if (origin_of(c) >= 0) {
    held_[c.block] = gone;
  } else {
    detector_.on_free(gone.address, self, *s);
  }
  blocks_.erase(c.block);
  return door_->free_async(gone.address, *s);
}

void World::join_visible(int context) {
  // Bare, the free has waited for them. The allocator has, here or in another thread's free.
  const sim::ThreadId self = sim::this_thread();
  const std::vector<sim::OpId> over = visible_of(context);
  setup_.bare ? detector_.on_host_join(self, over) : detector_.join_learnt(self, over);
}

std::int64_t World::live_bytes(int device) const {
  std::int64_t sum = 0;
  for (const auto& [id, object] : blocks_) {
    if (device_of(object.context) == device) sum += static_cast<std::int64_t>(object.bytes);
  }
  return sum;
}

void World::forget(int context) {
  std::erase_if(open_, [&](const auto& each) { return each.second.block.context == context; });
}

void World::check(bool exact) {
  for (int device = 0; device < 2; ++device) {
    const std::string wrong = door_->check(device, live_bytes(device), exact);
    if (!wrong.empty()) fail(Violation::Statistics, "at the end: " + wrong);
  }
}

void World::release_all() {
  end_graphs();
  while (!open_.empty())
    end_sharing(open_.begin()->first);
  // A free waits for the block's own device at most, on bare too: copies of other contexts come
  // first.
  if (contexts_used_.size() > 1) wait_for_contexts("the wait before the last frees fails");
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
