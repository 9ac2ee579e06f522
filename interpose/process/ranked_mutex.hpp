// SPDX-License-Identifier: MIT
// RankedMutex: the one lock type of interpose/. Like the core's Mutex it is annotated for
// Clang's -Wthread-safety, and assertions check that a thread takes locks in rising order of
// rank. Unlike Mutex it can be constinit: programs allocate before our constructors run.
// mutex.hpp does not count it, so the core serves a thread that holds one.
#pragma once

#include "allocator/base/mutex.hpp"

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

namespace custash {

// In the order in which a thread may take them. The core calls nothing of interpose/ under a
// lock of its own, except through a malloc of the program's.
enum class HookRank {
  Record,
  ServiceStart,
  Neighbours,
  ImportTable,
  Peer,  // a connection that ends while the table is locked asks nothing
  MakeLedger,
  Ledger,
  PythonNames,  // the ledger copies them
  PythonDesk,
  GraphUses,
  OwnPools,
  KernelNames,
  Layouts,
  HostRanges,
  SyncMemops,
  Passed,
  Handles,
  Guards,
  Streams,
  GuardFindings
};

// One bit a rank.
inline constinit thread_local unsigned held_hook_ranks = 0;

class CAPABILITY("mutex") RankedMutex {
 public:
  explicit constexpr RankedMutex(HookRank rank) : bit_(1U << static_cast<unsigned>(rank)) {}

  void lock() ACQUIRE() {
    assert(held_hook_ranks < bit_ && "locks are taken in rising order of rank");
    mutex_.lock();
    held_hook_ranks |= bit_;
  }

  void unlock() RELEASE() {
    held_hook_ranks &= ~bit_;
    mutex_.unlock();
  }

  // Unlocks the mutex while it waits. May return early, as wait_until() may.
  void wait(std::condition_variable& changed) REQUIRES(this) {
    std::unique_lock lock(mutex_, std::adopt_lock);
    changed.wait(lock);
    lock.release();
  }

  // False: the time is over.
  bool wait_until(std::condition_variable& changed, std::chrono::steady_clock::time_point until)
      REQUIRES(this) {
    std::unique_lock lock(mutex_, std::adopt_lock);
    const std::cv_status ended = changed.wait_until(lock, until);
    lock.release();
    return ended == std::cv_status::no_timeout;
  }

  // After fork, in the child only: the thread that held it does not exist there.
  void reset_after_fork() {
    held_hook_ranks &= ~bit_;
    new (&mutex_) std::mutex;
  }

 private:
  std::mutex mutex_;
  const unsigned bit_;
};

// Holds the mutex while it lives, except between unlock() and lock().
class SCOPED_CAPABILITY RankedLock {
 public:
  explicit RankedLock(RankedMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { lock(); }

  ~RankedLock() RELEASE() {
    if (held_) unlock();
  }

  RankedLock(const RankedLock&) = delete;
  RankedLock& operator=(const RankedLock&) = delete;

  void lock() ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

  void unlock() RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  RankedMutex& mutex_;
  bool held_ = false;
};

}  // namespace custash
