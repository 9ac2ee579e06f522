// SPDX-License-Identifier: MIT
#include "allocator/mutex.hpp"

#include <cassert>
#include <new>

namespace custash {
namespace {

// One bit a rank: no thread ever holds two locks of one rank. Trivially destructible on
// purpose.
thread_local unsigned held = 0;

unsigned bit(LockRank rank) {
  return 1U << static_cast<unsigned>(rank);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Mutex::lock() {
  assert(held < bit(rank_) && "locks are taken in rising order of rank");
  // Held for tens of nanoseconds, as a rule: to sleep costs more than to wait. Each try takes
  // the cache line from the owner, so they get rarer.
  constexpr int kMostPauses = 128;
  bool locked = mutex_.try_lock();
  for (int pauses = 1; pauses <= kMostPauses && !locked; pauses *= 2) {
    for (int i = 0; i < pauses; ++i)
      pause();
    locked = mutex_.try_lock();
  }
  if (!locked) mutex_.lock();
  held |= bit(rank_);
}

void Mutex::unlock() {
  held &= ~bit(rank_);
  mutex_.unlock();
}

void Mutex::reset_after_fork() {
  held = 0;
  new (&mutex_) std::mutex;
}

int held_locks() {
  return __builtin_popcount(held);
}

}  // namespace custash
