// SPDX-License-Identifier: MIT
// DeviceGuards: blocks with pages of their own, between addresses without memory (option
// guard:). An access past the end, before the beginning or after the free faults. The blocks
// lie in a pool that no search looks into. When the work that may use a freed block is over,
// the next allocation, free, submission or wait releases its pages to the driver. Its
// addresses rest: as many as the device has bytes. The sampler of a context.
#pragma once

#include "allocator/cache/growth.hpp"
#include "allocator/cache/reclaim.hpp"
#include "allocator/cache/sampler.hpp"
#include "allocator/heap/arena.hpp"
#include "interpose/check/guard_sampler.hpp"
#include "interpose/check/guard_slack.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

namespace custash {

class DeviceGuards final : public Sampler {
 public:
  explicit DeviceGuards(const SamplerParts& parts)
      : core_(parts.core),
        growth_(parts.growth),
        reclaim_(parts.reclaim),
        sampler_(core_.shared.config.guard),
        slack_(core_.shared.driver, core_.context, core_.shared.config.guard.slack) {}

  // ---- Of a Sampler.
  bool allocate(const Request& request, Address* out) override EXCLUDES(cache_lock);
  void freed() override EXCLUDES(cache_lock);
  void collect() override EXCLUDES(cache_lock);
  void give_way() override EXCLUDES(cache_lock);

  void finish_writes() override EXCLUDES(cache_lock) { order_fills(nullptr); }

  std::vector<Page> abandon() override REQUIRES(cache_lock);

  // ---- Of all contexts: see GuardedMemory.

  // The same between allocations and frees, so that later work faults: asks for the newest free
  // alone, again for some microseconds where it is not over, but once for each free. Does
  // nothing while a stream captures.
  void collect_freed() EXCLUDES(cache_lock);
  // Before work is submitted to a stream, in its context: lets it come after the fills of
  // blocks (+fill). Null: waits on the host, with patience.
  void order_fills(const CUstream* stream) EXCLUDES(cache_lock);
  // Looks at the slack of all blocks, those in use too. Waits a second at most.
  void check_all() EXCLUDES(cache_lock);

  // How many fills may not be over, in all contexts. How many freed blocks have their pages.
  static std::uint32_t fills() { return fills_under_way.load(); }

  static std::uint32_t with_pages() { return freed_with_pages.load(std::memory_order_relaxed); }

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
    explicit Timed(CacheCore& core) : core_(core), begin_(core.shared.driver.now()) {}

    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;
    ~Timed() EXCLUDES(cache_lock);

   private:
    CacheCore& core_;
    const Nanoseconds begin_;
  };

  bool guard(const Request& request, Address* out) EXCLUDES(cache_lock);
  void count_pages(const GuardedBlock& block, int sign) REQUIRES(cache_lock);
  static std::size_t count_used(const Arena& arena) REQUIRES(cache_lock);
  std::size_t count_freed(const Arena& arena) const REQUIRES(cache_lock);
  void note_freed(const Arena& arena) REQUIRES(cache_lock);
  enum class Asking { Once, Briefly };
  void collect(Asking asking) EXCLUDES(cache_lock);
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
  void report_slack(const GuardedBlock& block, const GuardSlack::Look& look);
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
