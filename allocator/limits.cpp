// SPDX-License-Identifier: MIT
// The facade: limits, trimming, and what is done and said when memory has run out.
#include "allocator/allocator.hpp"
#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
#include <string>

namespace custash {
namespace {

// The last rung but the hooks: what the other contexts of the device hold.
bool trim_others(const std::vector<ContextCache*>& caches, const ContextCache* self) {
  bool returned = false;
  visit_living(caches, [&](ContextCache& cache) {
    if (&cache == self || cache.returnable() == 0) return;
    cache.give_way();  // what cannot be returned now is simply not there for the retry
    returned = true;
  });
  return returned;
}

}  // namespace

Status Allocator::State::allocate(StreamBinding& binding, Bytes bytes, Address* out) {
  ContextCache& cache = *binding.cache;
  Lane* const lane = binding.lane;
  ThreadCache* const thread_cache =
      ThreadBindings::mine().thread_cache(binding);  // a hook may make the binding another's
  if (const Address hit = cache.quick_allocate(*thread_cache, bytes); hit != 0) {
    *out = hit;
    return {};
  }
  const auto allocate = [&] { return cache.allocate(bytes, lane, thread_cache, out); };
  Status status = allocate();
  if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  if (trim_others(on_device(cache.device()), &cache)) status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && neighbours_gave(cache.device(), bytes))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY && call_oom_hooks(cache.device(), bytes))
    status = allocate();
  if (status.code() == CUDA_ERROR_OUT_OF_MEMORY) tell_out_of_memory(cache, bytes);
  return status;
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
  cache.count_oom();
  const auto mib = [](Bytes amount) { return std::to_string(amount >> 20U) + " MiB"; };
  const DeviceBudget& held = budget(cache.device());
  std::string text = "out of memory on device " + std::to_string(cache.device()) + ": " +
                     std::to_string(bytes) + " bytes asked for; " + cache.describe_use();
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

Status Allocator::trim(int device, Bytes bytes) {
  Status result;
  visit_living(state_->on_device(device), [&](ContextCache& cache) {
    const Bytes before = state_->budget(device).held();
    if (const Status trimmed = cache.trim({.bytes = bytes, .plain = PlainTrim::Now});
        !trimmed.ok())
      result = trimmed;
    const Bytes after = state_->budget(device).held();
    bytes -= std::min(bytes, before - std::min(before, after));
  });
  return result;
}

Status Allocator::trim_stream(CUstream stream, NullStream null) {
  const StreamPlace place = state_->place(stream, null);
  return place ? place.cache->trim({.plain = PlainTrim::Now}, *place.lane)
               : CUDA_ERROR_INVALID_VALUE;
}

Status Allocator::trim_idle(int device) {
  Status result;
  visit_living(state_->on_device(device), [&](ContextCache& cache) {
    if (const Status trimmed = cache.trim_idle(); !trimmed.ok()) result = trimmed;
  });
  return result;
}

void Allocator::set_limit(int device, Bytes bytes) {
  state_->budget(device).set_limit(bytes);
}

Bytes Allocator::limit(int device) const {
  return state_->budget(device).limit();
}

Bytes Allocator::room_under_limit(CUcontext context) {
  ContextCache* cache = state_->known(context);
  if (cache == nullptr) return ~0ULL;
  const Bytes room = state_->budget(cache->device()).room();
  const Bytes free = reclaimable(context);
  return room > ~free ? ~0ULL : room + free;
}

void Allocator::add_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(state_->mutex);
  state_->oom_hooks.push_back({hook, data});
}

bool Allocator::remove_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(state_->mutex);
  const auto same = [&](const State::OomHook& each) {
    return each.call == hook && each.data == data;
  };
  return std::erase_if(state_->oom_hooks, same) != 0;
}

}  // namespace custash
