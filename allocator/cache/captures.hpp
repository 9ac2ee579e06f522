// SPDX-License-Identifier: MIT
// Captures: which captures may use a block that was allocated beside them. A capture lives
// while it goes on, and then as long as a graph or an executable that was made of it. Own lock
// (rank Captures), which a thread may take with the lock of a ContextCache held. No driver
// call. decision 11
#pragma once

#include "allocator/base/mutex.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace custash {

class Captures {
 public:
  using Number = std::uint64_t;  // of a capture, never used again
  using Numbers = std::vector<Number>;

  // How much of a call's parameters custash has read. InPart: they may hold an address in a
  // form that custash cannot read, such as a tensor map.
  enum class Reading { Whole, InPart, None };

  // A call that a capture has taken in.
  struct Call {
    std::uint64_t driver_id = 0;  // of its capture; 0: unknown, so it may be any that goes on
    std::uint32_t thread = 0;
    Reading reading = Reading::None;
    std::span<const std::uint64_t> named;  // ids of the blocks that it names
  };

  // A capture that may use a block, and why: a call of it may name the block, or only the
  // block's thread has worked for it.
  struct Holder {
    Number capture = 0;
    bool named = false;
  };

  using Holders = std::vector<Holder>;

  // ---- Captures. Before the driver begins one, by the thread that begins it; once the driver
  // has begun it, into `graph` where that exists; after its end. Functions that end something
  // return the captures that ended with it: their blocks may go.
  Number begins(std::uint32_t thread);
  void begun(Number capture, std::uint64_t driver_id, const void* graph);
  [[nodiscard]] Numbers ended(Number capture, const void* graph);

  [[nodiscard]] bool several_go_on() const;
  void takes_in(const Call& call);

  // ---- Graphs and executables, by their handles. What `handle` holds is also what `part`
  // holds: it is a copy of it, or contains it.
  void add(const void* handle, const void* part);
  // From now on `handle` holds exactly what `part` holds. A handle that the driver has just
  // made may be one that was used before.
  [[nodiscard]] Numbers replace(const void* handle, const void* part);
  // Before the driver destroys it: afterwards another thread may get the same handle. Then
  // either drop() or put_back().
  [[nodiscard]] Numbers detach(const void* handle);
  [[nodiscard]] Numbers drop(const Numbers& taken);
  void put_back(const void* handle, const Numbers& taken);

  // ---- Blocks: by the id that a block had, and the thread that allocated it.
  [[nodiscard]] Holders holders(std::uint64_t id, std::uint32_t thread) const;
  // Every call of these captures was read as a whole, and none names the block.
  [[nodiscard]] bool name_nothing(const Holders& holders) const;

  // In the child: the thread that held the lock does not exist there.
  void reset_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Capture {
    std::uint64_t driver_id = 0;
    bool goes_on = true;
    bool is_read = true;         // every call of it, as a whole
    std::uint32_t graphs = 0;    // and executables that hold it
    std::uint64_t first_id = 0;  // of the blocks that were allocated beside it
    std::uint64_t end_id = ~0ULL;
    std::uint64_t unread_end_id = 0;     // a call may name any block with an id below this one
    std::vector<std::uint32_t> threads;  // that have worked for it
    std::unordered_set<std::uint64_t> named;
  };

  void add_numbers(const void* handle, const Numbers& numbers) REQUIRES(mutex_);
  Numbers take_locked(const void* handle) REQUIRES(mutex_);
  Numbers drop_locked(const Numbers& numbers) REQUIRES(mutex_);
  Numbers over(const Numbers& numbers) REQUIRES(mutex_);
  Numbers of(const void* handle) const REQUIRES(mutex_);

  mutable Mutex mutex_{LockRank::Captures};
  Number next_ GUARDED_BY(mutex_) = 1;
  std::map<Number, Capture> living_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, Numbers> graphs_ GUARDED_BY(mutex_);
};

}  // namespace custash
