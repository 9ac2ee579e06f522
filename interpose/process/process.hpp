// SPDX-License-Identifier: MIT
// Process: the life of custash in a process, one state machine. Loading reads CUSTASH_CONF and
// does nothing else; the core starts at the first driver call after a cuInit that succeeded; at
// exit and in a forked child only calls to the real driver are left. Everything is in static
// storage and is never destroyed: programs free memory from static destructors and from threads
// that outlive main.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/held_locks.hpp"
#include "pinned/host_cache.hpp"

#include <atomic>

namespace custash::process {

enum class State : int {
  NotStarted,  // cuInit has not been seen to succeed
  Starting,    // one thread builds the core, others that come now wait for it
  Running,
  Forked,    // a child without exec: CUDA does not work here, every call is the driver's to
             // refuse
  ShutDown,  // exit has begun: no calls of our own any more
  Disabled,  // enabled:false, or a driver that we cannot work with
};

// Set exactly while Running.
extern std::atomic<Allocator*> current;

// The way there while it is not set: starts the core when CUDA is up, else null.
Allocator* first_use() noexcept;

// The core, or null: then the call goes to the driver as it is. So does one from inside the
// core's own malloc, which another library may have made its own.
inline Allocator* core() noexcept {
  if (holds_a_lock()) return nullptr;
  Allocator* const running = current.load(std::memory_order_acquire);
  return running != nullptr ? running : first_use();
}

// The cache of pinned memory: there whenever core() has answered.
HostCache& pinned() noexcept;

State state() noexcept;

// After exit has begun, and inside the core's own malloc: whether the address lies in a segment
// of ours. Such memory is never given to the driver, which may be gone, and would not know a
// block of ours anyway.
bool left_behind(Address address) noexcept;
bool left_behind(const void* host) noexcept;

// What the driver would say of a call now: 4 once it has shut down; 800 inside the core, as it
// says of calls from its callbacks.
CUresult driver_says() noexcept;

}  // namespace custash::process
