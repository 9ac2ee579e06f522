// SPDX-License-Identifier: MIT
// Mutex: the one lock type. Ranked (taken in rising order, checked where invariants are on),
// annotated for Clang's -Wthread-safety, counted per thread so that the simulated driver can
// fail a test whose thread enters the driver with a lock held.
#pragma once

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
  CopiesAbroad
};

class CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockRank rank) : rank_(rank) {}

  void lock() ACQUIRE();
  void unlock() RELEASE();

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
  Mutex& mutex_;
};

// How many custash locks the calling thread holds.
int held_locks();

}  // namespace custash
