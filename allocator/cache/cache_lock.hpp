// SPDX-License-Identifier: MIT
// CacheLock: holds the one lock of a ContextCache (rank Context), which guards all its parts.
// A thread holds one such lock at most. The annotations therefore name `cache_lock`, which
// stands for the lock of the cache that the thread works on.
#pragma once

#include "allocator/base/mutex.hpp"

namespace custash {

class CAPABILITY("mutex") CacheLockRole {};

// Declared for the annotations only; it has no definition.
extern CacheLockRole cache_lock;

class SCOPED_CAPABILITY CacheLock {
 public:
  explicit CacheLock(Mutex& mutex) ACQUIRE(cache_lock) : mutex_(mutex) { mutex_.lock(); }

  ~CacheLock() RELEASE() { mutex_.unlock(); }

  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace custash
