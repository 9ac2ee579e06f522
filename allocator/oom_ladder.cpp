// SPDX-License-Identifier: MIT
// The out-of-memory ladder beyond one cache: the other contexts of the device, other processes
// and the program's own hooks. The rungs of a cache come first (cache/oom_ladder.cpp).
// Proved: tests/models/room.pml.
#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/base/words.hpp"
#include "allocator/cache/fast_path_inline.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

namespace custash {
namespace {

// Memory that the other contexts of the device hold.
bool trim_others(const std::vector<ContextCache*>& caches, const ContextCache* self) {
  bool returned = false;
  visit_living(caches, [&](ContextCache& cache) {
    if (&cache == self || cache.reclaim().returnable() == 0) return;
    cache.give_way();  // what cannot be returned now is simply not there for the retry
    returned = true;
  });
  return returned;
}

// What an allocation lacks. Its turn lasts until it has been tried again.
struct Lack {
  ContextCache& cache;
  Bytes bytes;
  std::shared_ptr<void> turn;
};

// ---- The rungs. True: there may be memory now.

bool trim_contexts(Allocator::State& state, Lack& lack) {
  return trim_others(state.on_device(lack.cache.device()), &lack.cache);
}

bool end_guards(Allocator::State& state, Lack& lack) {
  if (state.config.guard.on_device == nullptr) return false;
  visit_living(state.on_device(lack.cache.device()),
               [](ContextCache& each) { each.sampler()->give_way(); });
  return true;
}

// In vain if the limit is the obstacle, unless other processes share it.
bool ask_neighbours(Allocator::State& state, Lack& lack) {
  const Bytes wanted = align_up(lack.bytes, kPageBytes);
  DeviceBudget& budget = state.limits.budget(lack.cache.device());
  const Bytes room = budget.quota().shared() ? budget.own_room() : budget.room();
  if (state.neighbours.ask == nullptr || state.captures_open.load() != 0 || room < wanted)
    return false;
  constexpr Nanoseconds kPatience = 60'000'000'000;  // for contents on their way to the host
  const Room made = state.neighbours.ask(lack.cache.device(), wanted, kPatience, &lack.turn);
  if (state.sleep_gate.closed()) lack.turn.reset();  // it would keep this process from waking
  return made == Room::Made;
}

// Free memory in pages that are partly in use, where there is enough of it. It waits for work
// that the driver would not wait for, so not for long.
bool cut_pages(Allocator::State& state, Lack& lack) {
  auto* const cut = state.cut_pages.load();
  return cut != nullptr && cut(state, lack.cache.device(), align_up(lack.bytes, kPageBytes));
}

// Blocks that the program has freed, and that are held for graphs although no call in them
// names the block: only a pointer that custash cannot see could lead there.
bool free_unnamed(Allocator::State& state, Lack& lack) {
  bool any = false;
  visit_living(state.on_device(lack.cache.device()),
               [&](ContextCache& each) { any |= each.freed_blocks().free_unnamed(); });
  return any;
}

bool call_hooks(Allocator::State& state, Lack& lack) {
  return state.limits.call_oom_hooks(lack.cache.device(), lack.bytes);
}

void tell_out_of_memory(Allocator::State& state, ContextCache& cache, Bytes bytes) {
  cache.report().count_oom();
  DeviceBudget& held = state.limits.budget(cache.device());
  std::string text = "out of memory on device " + std::to_string(cache.device()) + ": " +
                     std::to_string(bytes) + " bytes asked for; " +
                     cache.report().describe_use();
  if (const Bytes kept = cache.freed_blocks().held_bytes(); kept != 0)
    text += ", " + in_mib(kept) + " freed but held for CUDA graphs";
  std::size_t free = 0;
  std::size_t total = 0;
  if (state.driver.mem_get_info(&free, &total) == CUDA_SUCCESS) {
    const Bytes known = free + held.held();
    text += "; the device has " + in_mib(total) + ", " + in_mib(free) + " free, " +
            in_mib(total - std::min<Bytes>(total, known)) + " held by others";
  }
  if (held.limit() != ~0ULL) text += "; limit " + in_mib(held.limit());
  if (held.quota().limited()) text += "; " + state.limits.describe(cache.device());
  set_last_error(text);
  log(LogLevel::Warn, "event=out_of_memory reason=\"" + text + "\"");
}

// docs/decisions/18-ladder.md has a line for each.
using Rung = bool(Allocator::State&, Lack&);
constexpr Rung* kRungs[] = {
    trim_contexts,
    end_guards,
    ask_neighbours,
    cut_pages,
    free_unnamed,
    call_hooks,
};

}  // namespace

Status Allocator::State::allocate(StreamBinding& binding, Bytes bytes, Address* out) {
  ContextCache& cache = *binding.cache;
  StreamState* const stream_state = binding.stream_state;
  ThreadCache* const thread_cache =
      ThreadBindings::mine().thread_cache(binding);  // a hook may make the binding another's
  if (const Address hit = cache.fast_path().allocate(*thread_cache, bytes); hit != 0) {
    *out = hit;
    return {};
  }
  const auto allocate = [&] { return cache.allocate(bytes, stream_state, thread_cache, out); };
  Status status = allocate();
  if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  const CancellationOff off;
  Lack lack{cache, bytes, {}};
  for (Rung* const rung : kRungs) {
    if (rung(*this, lack)) status = allocate();
    if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  }
  lack.turn.reset();
  RoomWait wait(*this, cache.device(), align_up(bytes, kPageBytes));
  while (status.code() == CUDA_ERROR_OUT_OF_MEMORY && wait.again())
    status = allocate();
  if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  tell_out_of_memory(*this, cache, bytes);
  return status;
}

bool Allocator::relieve(CUcontext context) {
  ContextCache* cache = state_->known(context);
  return cache != nullptr && trim_others(state_->on_device(cache->device()), nullptr);
}

}  // namespace custash
