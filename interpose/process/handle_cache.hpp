// SPDX-License-Identifier: MIT
// HandleCache: memory of cuMemCreate that the program has let go of, kept for its next
// cuMemCreate of the same size and properties (option handle_cache). It counts as free, and
// whoever needs memory gets it: so the program's handles and these together never hold more
// than its handles alone held before. State: a list, oldest first, and its order by size and
// properties. Own lock, never held across a driver call.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include <cuda.h>

namespace custash {

class HandleCache {
 public:
  struct Memory {
    CUmemGenericAllocationHandle handle = 0;
    Bytes bytes = 0;
    CUmemAllocationProp properties{};
  };

  // What is left of the program's use, or may be.
  struct Uses {
    bool referenced = false;  // by another reference; one of cuMemRetainAllocationHandle counts
    bool mapped = false;
    bool elsewhere = false;  // exported, or bound to more than an address of this process
  };

  struct Counts {
    std::uint64_t served = 0;  // calls of cuMemCreate
    std::uint64_t handles = 0;
    Bytes bytes = 0;
  };

  // The program releases its reference, which the cache takes over. False: it does not.
  bool enter(Allocator& core, const Memory& memory, const Uses& left) noexcept;
  // None where all such memory may still be in use by earlier work.
  std::optional<CUmemGenericAllocationHandle> take(Allocator& core,
                                                   Bytes bytes,
                                                   const CUmemAllocationProp& properties);
  // The program has released it and may not use it. Looks at all: PassedTable knows sooner
  // which handles are the program's.
  bool has(CUmemGenericAllocationHandle handle);

  static constexpr int kEveryDevice = -1;
  static constexpr Bytes kAll = ~Bytes{0};
  // Releases the oldest, at least `bytes` if so much is here; returns how much.
  Bytes give_back(const Driver& driver, int device = kEveryDevice, Bytes bytes = kAll) noexcept;
  // Releases what was here at the call before.
  void give_back_idle(const Driver& driver, int device = kEveryDevice) noexcept;
  // The same every `decay` seconds.
  void decay(Allocator& core) noexcept;

  Bytes held(int device);
  Counts read();

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Cached {
    Memory memory;
    std::uint64_t ticket = 0;  // passed: what used the memory is over
    bool seen = false;         // by give_back_idle()

    [[nodiscard]] bool is_on(int device) const {
      return device == kEveryDevice || memory.properties.location.id == device;
    }
  };

  using List = std::list<Cached>;  // moves between lists without memory

  // Those alike beside each other, the oldest first.
  struct Alike {
    bool operator()(const Cached* one, const Cached* other) const;
  };

  void forget(List::iterator entry) REQUIRES(mutex_);
  // Moves the oldest of the device to `out`, until that many bytes are.
  void move_oldest(int device, Bytes bytes, List* out) REQUIRES(mutex_);
  Bytes held_on(int device) const REQUIRES(mutex_);
  // What the driver does not take back stays here.
  Bytes release(const Driver& driver, List what);

  // A quick answer, without the lock.
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  // Order: none. A thread that may use a handle came after it was let go of.
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> served_{0};
  std::atomic<Nanoseconds> next_decay_{0};
  RankedMutex mutex_{HookRank::HandleCache};
  List cached_ GUARDED_BY(mutex_);
  std::map<const Cached*, List::iterator, Alike> alike_ GUARDED_BY(mutex_);
  std::map<int, Bytes> held_ GUARDED_BY(mutex_);  // by device
};

// The process's. Never destroyed.
HandleCache& handle_cache() noexcept;

namespace handle_caching {

// Lets custash's own calls for memory have this memory first. Once, before the core is made.
void follow(Driver* driver);

}  // namespace handle_caching
}  // namespace custash
