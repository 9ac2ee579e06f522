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

}  // namespace

void Mutex::lock() {
  assert(held < bit(rank_) && "locks are taken in rising order of rank");
  mutex_.lock();
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
