// SPDX-License-Identifier: MIT
// SleepingPages: the pages of a context whose memory is away. Their addresses, their blocks and
// all that is counted of them stay; their contents are in host memory. Part of a ContextCache;
// its list is guarded by the cache lock while it is made, and afterwards belongs to the one
// thread that puts the process to sleep or wakes it (SleepGate).
// decision 21
#pragma once

#include "allocator/cache/segments.hpp"
#include "allocator/cache/still_pages.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/memory/mapped_memory.hpp"
#include "allocator/memory/sleep_sums.hpp"
#include "allocator/sleep/page_contents.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace custash {

class SleepingPages {
 public:
  SleepingPages(StillPages& still, CopyStream& stream)
      : core_(still.core),
        segments_(still.segments),
        staying_(still.staying),
        contents_(core_.shared.driver, core_.context, stream),
        bytes_(still.asleep) {}

  // ---- Going to sleep; the context is current. A process that sleeps in part can put a
  // further portion to sleep. How many bytes of contents would have to be saved.
  // `mapped`: what the program mapped on the device goes with this context; null: it does not.
  [[nodiscard]] Bytes needed(MappedMemory* mapped) EXCLUDES(cache_lock);

  [[nodiscard]] PageContents& contents() { return contents_; }

  // Nothing runs any more. Chooses all pages that may leave; false: the reserve is too small.
  bool choose(MappedMemory* mapped, SleepSums* sums) EXCLUDES(cache_lock);
  // The contents are in the store once it returns. Else `why` tells, where the store knows.
  Status copy_out(HostStore& store, SleepSums* sums, std::string* why) EXCLUDES(cache_lock);
  // Undoes choose().
  void cancel() EXCLUDES(cache_lock);
  // Gives the chosen pages back to the driver. Those that it refuses stay awake.
  void give_back(MappedMemory* mapped, SleepSums* sums) EXCLUDES(cache_lock);

  // ---- Waking; the context is current. First all pages are made, of all contexts. After an
  // error unmake() returns them to the driver, and waking may begin again.
  Status make() EXCLUDES(cache_lock);
  void unmake();
  // Brings the contents back. The pages are awake then.
  Status wake(HostStore& store, MappedMemory* mapped, std::string* why) EXCLUDES(cache_lock);

  [[nodiscard]] bool any() const { return bytes_.load() != 0; }

  // The context ends. Nothing will be woken.
  void abandon() REQUIRES(cache_lock);

 private:
  // A page that is restored at waking: what is alive of one that has left.
  struct Sleeper {
    Segment* segment = nullptr;  // null: a range of the program's
    Page page;  // size 0: its memory is not needed any more; handle 0: it is not made
    MappedRange range;
  };

  template <typename Visit>
  void each_page(SleepSums* sums, Visit visit) REQUIRES(cache_lock);
  Bytes contents_of_pages() REQUIRES(cache_lock);
  void drop_stale() REQUIRES(cache_lock);
  void choose(std::vector<MappedRange> ranges, SleepSums* sums) EXCLUDES(cache_lock);
  void add(const PageCut& cut, SleepSums* sums) REQUIRES(cache_lock);
  void add(MappedRange range, SleepSums* sums);
  void give_back(MappedMemory& mapped, Sleeper& sleeper, SleepSums* sums);
  Status make(Sleeper& sleeper);
  Status restore(HostStore& store, std::string* why);
  void stay(const PageCut& cut) REQUIRES(cache_lock);
  void leave(PageCut& cut) REQUIRES(cache_lock);

  void forget() {
    leaving_.clear();
    sleepers_.clear();
    portion_ = 0;
    contents_.clear();
  }

  void claim() REQUIRES(cache_lock);
  Status give_access(std::size_t first, std::size_t last);

  CacheCore& core_;
  Segments& segments_;
  StayingPages& staying_;
  std::vector<PageCut> leaving_;  // dead parts of them are not restored
  std::vector<Sleeper> sleepers_;
  PeerAccess::Accessors accessors_;  // who may access the pages that are made
  std::size_t portion_ = 0;          // the first sleeper of the last portion
  PageContents contents_;
  std::atomic<Bytes>& bytes_;  // of pages that are away
};

}  // namespace custash
