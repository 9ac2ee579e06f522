// SPDX-License-Identifier: MIT
// The out-of-memory ladder: every rung in order. OomLadder climbs those of one cache. The
// facade then asks the other contexts of the device, other processes and the program's hooks.
#include "allocator/cache/oom_ladder.hpp"

#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
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

}  // namespace

Status OomLadder::grow_or_climb(const Request& request, Address* out) {
  const CancellationOff off;
  const Status grown = grow(request, out);
  return grown.code() == CUDA_ERROR_OUT_OF_MEMORY ? climb(request, grown, out) : grown;
}

Status OomLadder::grow(const Request& request, Address* out) {
  const bool nearly_full = core_.headroom.look(core_.memory, core_.budget) == Fit::FewPages;
  if (nearly_full && find_before_growing(request, out)) return {};
  if (core_.whole_blocks.on() && !request.small() && core_.memory.vmm()) {
    if (const Bytes excess = growth_.excess(request); excess != 0)
      reclaim_.trim({.bytes = excess}, nullptr).ignore();  // the driver may have the room
  }
  return growth_.grow(request, out);
}

// On a nearly full device placement matters, so it waits for frees before it makes memory.
// Patience limits every wait that the program does not have without custash.
bool OomLadder::find_before_growing(const Request& request, Address* out) {
  if (search_all(request, out)) return true;
  const bool waiting = core_.limbo_high.load() > core_.timeline.passed();
  if (!waiting || core_.timeline.capturing()) return false;
  waits_.wait_for_frees().ignore();  // broken() tells
  return search_all(request, out) || (waits_.wait_for_all_frees() && search_all(request, out));
}

Status OomLadder::climb(const Request& request, Status first, Address* out) {
  {
    CacheLock lock(core_.mutex);
    ++core_.stats.num_alloc_retries;
  }
  if (rung_poll(request, out) || rung_wait(request, out) || rung_wait_all(request, out))
    return {};
  const PlainTrim plain = waits_.plain_may_go() ? PlainTrim::Now : PlainTrim::No;
  // First just enough goes back: the driver makes one piece of the freed pages.
  const Bytes enough = align_up(std::max(request.rounded, kSlabBytes), kPageBytes);
  for (const Bytes bytes : {enough, ~Bytes{0}}) {
    const Status status = rung_trim(request, {.bytes = bytes, .plain = plain}, out);
    if (status.ok() || status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  }
  return rung_gap(request, out) ? Status() : first;
}

bool OomLadder::search_all(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  *out = search_.take(request, core_.reuse_limits(request, core_.debt_allowed()));
  if (*out == 0) *out = search_.take_across(request);
  if (*out == 0) *out = search_.take_in_debt(request);
  return *out != 0;
}

// Finds blocks whose work has passed meanwhile, and blocks that can be taken in debt.
bool OomLadder::rung_poll(const Request& request, Address* out) {
  core_.timeline.poll(std::max(core_.limbo_high.load(), core_.timeline.newest()));
  return search_all(request, out);
}

// Waits for the frees in limbo, as the program would at cudaFree without custash, and for
// streams that freed memory. Then the freed pages can be moved.
bool OomLadder::rung_wait(const Request& request, Address* out) {
  if (!waits_.wait_for_frees().ok()) return false;
  return search_all(request, out) || grow(request, out).ok();
}

bool OomLadder::rung_wait_all(const Request& request, Address* out) {
  return waits_.wait_for_all_frees() && (search_all(request, out) || grow(request, out).ok());
}

Status OomLadder::rung_trim(const Request& request, TrimRequest trim_request, Address* out) {
  if (const Status trimmed = reclaim_.trim(trim_request, nullptr); !trimmed.ok())
    return trimmed;
  const Status grown = grow(request, out);
  if (grown.ok() || grown.code() != CUDA_ERROR_OUT_OF_MEMORY) return grown;
  return search_all(request, out) ? Status() : grown;
}

bool OomLadder::rung_gap(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  *out = search_.take_any_gap(request);
  return *out != 0;
}

// Where debt is not allowed, a program that frees and allocates in turn would hold ever more
// memory. So the allocation waits for the oldest frees, as the program would at cudaFree
// without custash.
bool OomLadder::take_after_wait(const Request& request, Address* out) {
  while (*out == 0 && !core_.timeline.capturing() && core_.timeline.wait_oldest_free()) {
    CacheLock lock(core_.mutex);
    *out = search_.take(request, core_.reuse_limits(request, false));
  }
  return *out != 0;
}

void OomLadder::give_way() {
  waits_.wait_for_frees().ignore();
  (void)waits_.wait_for_all_frees();
  reclaim_.trim({.plain = waits_.plain_may_go() ? PlainTrim::Now : PlainTrim::No}, nullptr)
      .ignore();
}

// ---- The facade's part: the rungs outside of the cache.

Status Allocator::State::allocate(StreamBinding& binding, Bytes bytes, Address* out) {
  ContextCache& cache = *binding.cache;
  StreamState* const stream_state = binding.stream_state;
  ThreadCache* const thread_cache =
      ThreadBindings::mine().thread_cache(binding);  // a hook may make the binding another's
  if (const Address hit = cache.quick_allocate(*thread_cache, bytes); hit != 0) {
    *out = hit;
    return {};
  }
  const auto allocate = [&] { return cache.allocate(bytes, stream_state, thread_cache, out); };
  Status status = allocate();
  if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  const CancellationOff off;
  if (trim_others(on_device(cache.device()), &cache)) status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && config.guard.on_device != nullptr) {
    visit_living(on_device(cache.device()),
                 [](ContextCache& each) { each.sampler()->give_way(); });
    status = allocate();
  }
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && neighbours_gave(cache.device(), bytes))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && cut_pages(cache.device(), bytes))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && free_unnamed(cache.device()))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && call_oom_hooks(cache.device(), bytes))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY) tell_out_of_memory(cache, bytes);
  return status;
}

// Free memory in pages that are partly in use, where there is enough of it. It waits for work
// that the driver would not wait for, so not for long.
bool Allocator::State::cut_pages(CUdevice device, Bytes bytes) {
  constexpr std::uint32_t kSeconds = 1;
  constexpr Nanoseconds kSecond = 1'000'000'000;
  if (deep_trim == nullptr) return false;
  Bytes gain = 0;
  visit_living(on_device(device),
               [&](ContextCache& each) { gain += each.still_pages().cutter.gain(); });
  std::size_t free = 0;
  std::size_t total = 0;
  if (gain == 0 || driver.mem_get_info(&free, &total) != CUDA_SUCCESS) return false;
  if (std::min<Bytes>(free, budget(device).room()) + gain < align_up(bytes, kPageBytes))
    return false;
  const Nanoseconds patience = std::min(config.patience, kSeconds) * kSecond;
  return deep_trim(*this, device, patience) != 0;
}

// Blocks that the program has freed, and that are held for graphs although no call in them
// names the block: only a pointer that custash cannot see could lead there.
bool Allocator::State::free_unnamed(CUdevice device) {
  bool any = false;
  visit_living(on_device(device),
               [&](ContextCache& each) { any |= each.freed_blocks().free_unnamed(); });
  return any;
}

bool Allocator::State::call_oom_hooks(CUdevice device, Bytes bytes) {
  std::vector<OomHook> hooks;
  {
    Lock lock(mutex);
    hooks = oom_hooks;
  }
  bool again = false;
  for (const OomHook& hook : hooks)
    again |= hook.call(device, bytes, hook.data) != 0;
  return again;
}

void Allocator::State::tell_out_of_memory(ContextCache& cache, Bytes bytes) {
  cache.report().count_oom();
  const auto mib = [](Bytes amount) { return std::to_string(amount >> 20U) + " MiB"; };
  const DeviceBudget& held = budget(cache.device());
  std::string text = "out of memory on device " + std::to_string(cache.device()) + ": " +
                     std::to_string(bytes) + " bytes asked for; " +
                     cache.report().describe_use();
  if (const Bytes kept = cache.freed_blocks().held_bytes(); kept != 0)
    text += ", " + mib(kept) + " freed but held for CUDA graphs";
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver.mem_get_info(&free, &total) == CUDA_SUCCESS) {
    const Bytes known = free + held.held();
    text += "; the device has " + mib(total) + ", " + mib(free) + " free, " +
            mib(total - std::min<Bytes>(total, known)) + " held by others";
  }
  if (held.limit() != ~0ULL) text += "; limit " + mib(held.limit());
  set_last_error(text);
  log(LogLevel::Warn, "event=out_of_memory reason=\"" + text + "\"");
}

bool Allocator::relieve(CUcontext context) {
  ContextCache* cache = state_->known(context);
  return cache != nullptr && trim_others(state_->on_device(cache->device()), nullptr);
}

}  // namespace custash
