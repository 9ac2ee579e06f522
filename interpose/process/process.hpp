// SPDX-License-Identifier: MIT
// Process: the life of custash in a process, one state machine. Loading reads CUSTASH_CONF and
// does nothing else; the core starts at the first driver call after a cuInit that succeeded; at
// exit and in a forked child only calls to the real driver are left. Everything is in static
// storage and is never destroyed: programs free memory from static destructors and from threads
// that outlive main.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
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

// Non-null exactly while Running. Order: released after the core and the pinned cache are made,
// and acquired by every reader.
extern std::atomic<Allocator*> current;

// The slow path of core(): starts the core when CUDA is up, else null.
Allocator* first_use() noexcept;

// The core, or null: then the driver answers the call. So it does for a call from inside the
// core's own malloc, which another library may have replaced.
inline Allocator* core() noexcept {
  if (holds_a_lock()) return nullptr;
  Allocator* const running = current.load(std::memory_order_acquire);
  return running != nullptr ? running : first_use();
}

// The same for one that is in the process already: starts nothing.
Allocator* running() noexcept;

// The cache of pinned memory. It exists whenever core() is not null.
HostCache& pinned() noexcept;

State state() noexcept;

// For use after exit has begun, and inside the core's own malloc: whether the address is in a
// segment of ours. Such memory is never given to the driver, which may be gone and does not
// know our blocks anyway.
bool left_behind(Address address) noexcept;
bool left_behind(const void* host) noexcept;

// The reason why this thread's last allocation was refused, for libcustash-check.so.
const char* last_refusal() noexcept;

// The driver's error for a call now: 4 once it has shut down; 800 inside the core, as for calls
// from its callbacks.
CUresult driver_says() noexcept;

}  // namespace custash::process
