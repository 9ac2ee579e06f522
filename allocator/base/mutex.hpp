// SPDX-License-Identifier: MIT
// Mutex: the one lock type. Ranked (taken in rising order, checked where invariants are on),
// annotated for Clang's -Wthread-safety, counted per thread so that the simulated driver can
// fail a test whose thread enters the driver with a lock held.
#pragma once

#include <cassert>
#include <mutex>

#if defined(__clang__)
#define CUSTASH_TSA(x) __attribute__((x))
#else
#define CUSTASH_TSA(x)
#endif
#define CAPABILITY(x) CUSTASH_TSA(capability(x))
#define SCOPED_CAPABILITY CUSTASH_TSA(scoped_lockable)
#define GUARDED_BY(x) CUSTASH_TSA(guarded_by(x))
#define REQUIRES(...) CUSTASH_TSA(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) CUSTASH_TSA(acquire_capability(__VA_ARGS__))
#define RELEASE(...) CUSTASH_TSA(release_capability(__VA_ARGS__))
#define EXCLUDES(...) CUSTASH_TSA(locks_excluded(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) CUSTASH_TSA(assert_capability(x))

namespace custash {

// In the order in which a thread may take them.
enum class LockRank {
  Pinned,
  Registry,
  Context,
  HostTickets,
  Timeline,
  Events,
  CallsUnderWay,
  CopiesAbroad,
  Accounts,
  Captures,
  KeptObjects
};

class Lock;

class CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockRank rank) : rank_(rank) {}

  void lock() ACQUIRE();
  void unlock() RELEASE();

  // For a function whose caller holds the mutex, and passes its lock to show that.
  void assert_held(const Lock& lock) const ASSERT_CAPABILITY(this);

  // After fork, in the child only: the thread that held it does not exist any more.
  void reset_after_fork();

 private:
  std::mutex mutex_;
  const LockRank rank_;
};

class SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }

  ~Lock() RELEASE() { mutex_.unlock(); }

  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  friend class Mutex;
  Mutex& mutex_;
};

inline void Mutex::assert_held([[maybe_unused]] const Lock& lock) const {
  assert(&lock.mutex_ == this && "the lock is of another mutex");
}

// How many custash locks the calling thread holds.
int held_locks();

// One bit a rank: no thread ever holds two locks of one rank. Set by Mutex.
extern constinit thread_local unsigned held_lock_ranks;

// Another library may replace malloc and call custash from it. A thread that re-enters that way
// while it holds a lock must not take a second one.
inline bool holds_a_lock() {
  return held_lock_ranks != 0;
}

}  // namespace custash
