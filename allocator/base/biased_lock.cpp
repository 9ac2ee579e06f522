// SPDX-License-Identifier: MIT
// Proved: tests/models/thread_cache.pml.
#include "allocator/base/biased_lock.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/base/thread.hpp"

#include <chrono>
#include <thread>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace custash {
namespace {

bool membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

// Registered once for the process, when the library is loaded. The thread sanitizer does not
// model membarrier, only atomics.
#if defined(__SANITIZE_THREAD__)
const std::atomic<bool> BiasedLock::asymmetric{false};
#else
const std::atomic<bool> BiasedLock::asymmetric{
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)};
#endif

void BiasedLock::barrier() {
  // ask() was the barrier for this thread. If owners execute none, this one is theirs.
  if (!asymmetric.load(std::memory_order_relaxed)) return;
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // The kernel refuses now, though it accepted the registration (a sandbox set up since). A
  // store becomes visible to other threads within a millisecond.
  const CancellationOff off;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void BiasedLock::await() const {
  while (busy_.load(std::memory_order_seq_cst) != 0 &&
         holds(Rule::thread_caches_are_emptied_without_their_owner))
    std::this_thread::yield();  // some tens of instructions, unless the owner was preempted
}

void BiasedLock::step_back() {
  do {
    leave();
    while (asked_.load(std::memory_order_acquire) != 0)
      std::this_thread::yield();
    announce();
  } while (asked_.load(std::memory_order_seq_cst) != 0);
}

}  // namespace custash
