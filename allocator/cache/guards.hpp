// SPDX-License-Identifier: MIT
// Guards: blocks with pages of their own, between addresses without memory (option guard:). An
// access past the end, before the beginning or after the free faults. The blocks lie in a pool
// that no search looks into. When the work that may use a freed block is over, the next
// allocation, free, submission or wait gives its pages back to the driver. Its addresses rest:
// as many as the device has bytes. Part of a ContextCache.
#pragma once

#include "allocator/base/guard_sampler.hpp"
#include "allocator/cache/growth.hpp"
#include "allocator/cache/guard_slack.hpp"
#include "allocator/cache/reclaim.hpp"
#include "allocator/heap/arena.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

namespace custash {

class Guards {
 public:
  Guards(CacheCore& core, MemoryGrowth& growth, Reclaim& reclaim)
      : core_(core),
        growth_(growth),
        reclaim_(reclaim),
        sampler_(core.config.guard),
        slack_(core.driver, core.context, core.config.guard_slack) {}

  // Whether this allocation is one of those that option guard: names; it names some.
  bool wants(Bytes bytes) { return sampler_.wants(core_.config.guard, bytes); }

  // False: it goes on as any other. An allocation never fails because it should be guarded.
  bool allocate(const Request& request, Address* out) EXCLUDES(cache_lock);
  // Looks at the slack of freed blocks whose work is over, and gives their pages back.
  void collect() EXCLUDES(cache_lock);

  // The same at an allocation or a free. Each look asks the driver about events. So where few
  // blocks have guards, one in 64 of these calls looks.
  void collect_at_call() EXCLUDES(cache_lock) {
    constexpr std::uint32_t kOneIn = 64;
    if (core_.config.guard.one_in == 1 ||
        calls_.fetch_add(1, std::memory_order_relaxed) % kOneIn == 0)
      collect();
  }

  // The same between allocations and frees, so that later work faults: asks for the newest free
  // alone, again for some microseconds where it is not over, but once for each free. Does
  // nothing while a stream captures.
  void collect_freed() EXCLUDES(cache_lock);
  // Before work is submitted to a stream, in its context: lets it come after the fills of
  // blocks (guard_fill:). Null: waits on the host, with patience.
  void order_fills(const CUstream* stream) EXCLUDES(cache_lock);

  // How many fills may not be over, in all contexts. How many freed blocks have their pages.
  static std::uint32_t fills() { return fills_under_way.load(); }

  static std::uint32_t freed() { return freed_with_pages.load(std::memory_order_relaxed); }

  // Memory is short: the pages of freed blocks go back to the driver. Waits a second at most.
  void give_way() EXCLUDES(cache_lock);
  // Looks at the slack of all blocks, those in use too. Waits a second at most.
  void look_at_all() EXCLUDES(cache_lock);
  // The context is about to die. Returns the pages that are still mapped.
  std::vector<Page> abandon() REQUIRES(cache_lock);

 private:
  // A block that was freed, while the copies of its slack are under way.
  struct Leaving {
    PageReturn item;
    GuardedBlock block;
    GuardSlack::Look look;
    bool awaited = false;
  };

  // Adds the time of its life to the statistics.
  class Timed {
   public:
    explicit Timed(CacheCore& core) : core_(core), begin_(core.driver.now()) {}

    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;
    ~Timed() EXCLUDES(cache_lock);

   private:
    CacheCore& core_;
    const Nanoseconds begin_;
  };

  void count_pages(const GuardedBlock& block, int sign) REQUIRES(cache_lock);
  static std::size_t count_used(const Arena& arena) REQUIRES(cache_lock);
  std::size_t count_freed(const Arena& arena) const REQUIRES(cache_lock);
  void note_freed(const Arena& arena) REQUIRES(cache_lock);
  enum class Asking { Once, Briefly };
  void collect(Arena& arena, Position until, Asking asking) EXCLUDES(cache_lock);
  void go_on(Arena& arena,
             Position until,
             Asking asking,
             bool freed,
             std::vector<Leaving>* leaving) EXCLUDES(cache_lock);
  void poll_briefly(Position until);
  void wait_briefly(const GuardSlack::Look& look) const;
  void look_at_living();
  void fill(const GuardedBlock& block);
  bool comes_after(CUstream stream, CUevent fill);
  void begin_looks(Arena& arena, std::vector<Leaving>* leaving);
  void end_looks(Arena& arena, std::vector<Leaving>* leaving);
  GuardSlack::Look take_spare(Bytes room) REQUIRES(cache_lock);
  void tell_of(const GuardedBlock& block, const GuardSlack::Look& look);
  Arena& arena() REQUIRES(cache_lock);

  CacheCore& core_;
  MemoryGrowth& growth_;
  Reclaim& reclaim_;
  GuardSampler sampler_;
  // Order: none. Null: nothing was guarded yet.
  std::atomic<Arena*> arena_{nullptr};
  std::uint32_t guarded_ GUARDED_BY(cache_lock) = 0;
  std::atomic<bool> collecting_{false};  // one thread at a time
  // Order: none. What is not seen at one submission is seen at the next.
  static inline std::atomic<std::uint32_t> freed_with_pages{0};
  std::uint32_t freed_here_ GUARDED_BY(cache_lock) = 0;
  std::atomic<std::uint32_t> calls_{0};  // order: none, a count
  std::uint64_t made_ GUARDED_BY(cache_lock) = 0;
  std::uint64_t frees_seen_ GUARDED_BY(cache_lock) = 0;
  std::atomic<Position> wanted_{};  // when it has passed, the work before those frees is over
  std::atomic<Position> asked_{};   // for so long was asked briefly
  GuardSlack slack_;
  // Those in use, and those that were freed, by their pages' beginning.
  std::map<Address, GuardedBlock> blocks_ GUARDED_BY(cache_lock);
  std::vector<Leaving> leaving_ GUARDED_BY(cache_lock);
  std::vector<GuardSlack::Look> spare_ GUARDED_BY(cache_lock);
  static inline std::atomic<std::uint32_t> fills_under_way{0};
  std::vector<CUevent> fills_ GUARDED_BY(cache_lock);
  std::vector<CUevent> spare_fills_ GUARDED_BY(cache_lock);
};

}  // namespace custash
