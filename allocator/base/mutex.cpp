// SPDX-License-Identifier: MIT
#include "allocator/base/mutex.hpp"

#include "allocator/base/thread.hpp"

#include <cassert>
#include <new>

namespace custash {

constinit thread_local unsigned held_lock_ranks = 0;

namespace {

unsigned bit(LockRank rank) {
  return 1U << static_cast<unsigned>(rank);
}

}  // namespace

void Mutex::lock() {
  assert(held_lock_ranks < bit(rank_) && "locks are taken in rising order of rank");
  // Usually held for tens of nanoseconds: sleeping costs more than spinning. Each attempt takes
  // the cache line from the owner, so attempts become rarer.
  constexpr int kMostPauses = 128;
  bool locked = mutex_.try_lock();
  for (int pauses = 1; pauses <= kMostPauses && !locked; pauses *= 2) {
    for (int i = 0; i < pauses; ++i)
      pause();
    locked = mutex_.try_lock();
  }
  if (!locked) mutex_.lock();
  held_lock_ranks |= bit(rank_);
}

void Mutex::unlock() {
  held_lock_ranks &= ~bit(rank_);
  mutex_.unlock();
}

void Mutex::reset_after_fork() {
  held_lock_ranks = 0;
  new (&mutex_) std::mutex;
}

int held_locks() {
  return __builtin_popcount(held_lock_ranks);
}

}  // namespace custash
