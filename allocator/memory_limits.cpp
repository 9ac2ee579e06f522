// SPDX-License-Identifier: MIT
#include "allocator/memory_limits.hpp"

#include "allocator/registry.hpp"

#include <vector>

namespace custash {

MemoryLimits::MemoryLimits(Allocator& core) : core_(core), state_(*core.state_) {
}

void MemoryLimits::set(int device, Bytes bytes) {
  state_.budget(device).set_limit(bytes);
}

Bytes MemoryLimits::get(int device) const {
  return state_.budget(device).limit();
}

Bytes MemoryLimits::room(int device) {
  const Bytes room = state_.budget(device).room();
  const Bytes free = core_.reclaimable(device);
  return room > ~free ? ~0ULL : room + free;
}

void MemoryLimits::add_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(state_.mutex);
  state_.oom_hooks.push_back({hook, data});
}

bool MemoryLimits::remove_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(state_.mutex);
  const auto same = [&](const Allocator::State::OomHook& each) {
    return each.call == hook && each.data == data;
  };
  return std::erase_if(state_.oom_hooks, same) != 0;
}

}  // namespace custash
