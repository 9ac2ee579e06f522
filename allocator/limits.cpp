// SPDX-License-Identifier: MIT
// The facade: limits, trimming, and the list of out-of-memory hooks.
#include "allocator/allocator.hpp"
#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {

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
