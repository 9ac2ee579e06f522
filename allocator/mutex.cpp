// SPDX-License-Identifier: MIT
#include "allocator/mutex.hpp"

#include <cassert>
#include <new>

namespace custash {
namespace {

// One bit a rank: no thread ever holds two locks of one rank. Trivially destructible on purpose.
thread_local unsigned held = 0;

constexpr int kSpins = 200;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

unsigned bit(LockRank rank) { return 1U << static_cast<unsigned>(rank); }

}  // namespace

void Mutex::lock() {
  assert(held < bit(rank_) && "locks are taken in rising order of rank");
  // Critical sections are tens of nanoseconds and hold no driver call: a short spin is far cheaper
  // than the kernel's sleep and wake-up, which cost 16 threads tens of microseconds a pair.
  for (int spins = 0; !mutex_.try_lock(); ++spins) {
    if (spins == kSpins) {
      mutex_.lock();
      break;
    }
    pause();
  }
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

int held_locks() { return __builtin_popcount(held); }

}  // namespace custash
