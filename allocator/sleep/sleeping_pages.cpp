// SPDX-License-Identifier: MIT
#include "allocator/sleep/sleeping_pages.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

// ---- Going to sleep.

// visit(arena, first block, page) for the pages that may leave.
template <typename Visit>
void SleepingPages::each_page(SleepSums* sums, Visit visit) {
  staying_.refresh();
  for (const auto& pool : core_.pools) {
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->segments()) {
        if (segment->kind == SegmentKind::Plain) sums->plain += segment->mapped;
        Block* block = segment->first;
        for (const auto& [address, page] : segment->pages) {
          while (block->end() <= address)
            block = block->next;
          if (page.sleep != PageSleep::Awake) continue;  // gone before
          if (const auto reason = staying_.reason(page); reason != nullptr)
            sums->*reason += page.size;
          else
            visit(*arena, block, page);
        }
      }
    }
  }
}

Bytes SleepingPages::contents_of_pages() {
  Bytes sum = 0;
  SleepSums counted;
  each_page(&counted, [&](Arena&, Block* block, const Page& page) {
    for (const PageCut::Contents& each : PageCut::whole(block, page).contents)
      sum += each.bytes;
  });
  return sum;
}

Bytes SleepingPages::needed(MappedMemory* mapped) {
  Bytes sum = 0;
  SleepSums counted;
  if (mapped != nullptr)
    for (const MappedRange& each : mapped->may_leave(core_.device, &counted))
      sum += each.size;
  CacheLock lock(core_.mutex);
  return sum + contents_of_pages();
}

// Pages of earlier portions that were released for good. Others may have come to their
// addresses.
void SleepingPages::drop_stale() {
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.segment == nullptr) continue;
    const auto page = each.segment->pages.find(each.page.address);
    if (page != each.segment->pages.end() && page->second.sleep == PageSleep::Asleep) continue;
    bytes_.fetch_sub(each.page.size);
    each.page.size = 0;
  }
}

bool SleepingPages::choose(MappedMemory* mapped, SleepSums* sums) {
  CUSTASH_ASSERT(leaving_.empty());
  SleepSums mine;
  std::vector<MappedRange> ranges;
  if (mapped != nullptr) ranges = mapped->may_leave(core_.device, &mine);
  choose(std::move(ranges), &mine);
  const bool fits = contents_.place(&mine);
  *sums += mine;
  return fits;
}

void SleepingPages::choose(std::vector<MappedRange> ranges, SleepSums* sums) {
  CacheLock lock(core_.mutex);
  drop_stale();
  portion_ = sleepers_.size();
  contents_.begin_portion();
  const Position passed = core_.timeline.fences().passed();
  each_page(sums, [&](Arena& arena, Block* block, const Page& page) REQUIRES(cache_lock) {
    leaving_.emplace_back();
    PageCut& cut = leaving_.back();
    cut = worth_cutting(dead_bytes(block, page, passed), page)
              ? arena.open_cut(block, page, passed)
              : PageCut::whole(block, page);
    cut.segment->pages.at(page.address).sleep = PageSleep::Busy;
    add(cut, sums);
  });
  for (MappedRange& each : ranges)
    add(std::move(each), sums);
}

// The live parts of the page are restored at waking.
void SleepingPages::add(const PageCut& cut, SleepSums* sums) {
  auto part = cut.parts.begin();
  std::size_t sleeper = sleepers_.size();
  for (const PageCut::Contents& each : cut.contents) {
    for (; part->address + part->size <= each.address; ++part)
      ++sleeper;
    contents_.parts().push_back({sleeper, each.address, each.bytes});
  }
  for (Page alive : cut.parts) {
    alive.handle = 0;
    sleepers_.push_back({cut.segment, alive});
  }
  sums->asleep += cut.alive();
}

void SleepingPages::add(MappedRange range, SleepSums* sums) {
  contents_.parts().push_back({sleepers_.size(), range.address, range.size});
  sums->asleep += range.size;
  sleepers_.push_back(
      {nullptr, {.address = range.address, .size = range.size}, std::move(range)});
}

void SleepingPages::cancel() {
  CacheLock lock(core_.mutex);
  for (const PageCut& cut : leaving_) {
    if (cut.segment != nullptr) stay(cut);  // else the host had no memory for it
  }
  leaving_.clear();
  sleepers_.resize(std::min(sleepers_.size(), portion_));
  contents_.drop_portion();
}

void SleepingPages::stay(const PageCut& cut) {
  cut.segment->pages.at(cut.page.address).sleep = PageSleep::Awake;
  cut.segment->arena->abandon_cut(cut, core_.timeline.fences().passed());
}

Status SleepingPages::copy_out(HostStore& store, SleepSums* sums, std::string* why) {
  sums->in_file += contents_.in_file();
  return contents_.save(store, why);
}

void SleepingPages::give_back(MappedMemory* mapped, SleepSums* sums) {
  const RelaxedCapture relaxed(core_.shared.driver);
  auto sleeper = sleepers_.begin() + static_cast<std::ptrdiff_t>(portion_);
  for (PageCut& cut : leaving_) {
    const bool gone = core_.memory.unmap(cut.page.address, cut.page.size).ok();
    if (gone) core_.shared.deferred_unmaps.release(cut.page.handle);
    CacheLock lock(core_.mutex);
    if (gone) {
      leave(cut);
      sleeper += static_cast<std::ptrdiff_t>(cut.parts.size());
      continue;
    }
    stay(cut);
    sums->asleep -= cut.alive();
    sums->refused += cut.page.size;
    for (std::size_t i = 0; i < cut.parts.size(); ++i)
      (sleeper++)->page.size = 0;
  }
  leaving_.clear();
  for (; sleeper != sleepers_.end(); ++sleeper)
    give_back(*mapped, *sleeper, sums);
  // The portion is complete: a later attempt that fails, here or on another device, leaves it.
  portion_ = sleepers_.size();
  contents_.begin_portion();
  if (!any()) forget();
  core_.headroom.forget();
}

void SleepingPages::give_back(MappedMemory& mapped, Sleeper& sleeper, SleepSums* sums) {
  const MappedRange& range = sleeper.range;
  if (core_.memory.unmap(range.address, range.size).ok()) {
    mapped.set_handle(range, 0);  // before the driver may issue the number again
    if (!range.released) core_.shared.deferred_unmaps.release(range.handle);
    bytes_.fetch_add(range.size);
    return;
  }
  sums->asleep -= range.size;
  sums->refused += range.size;
  sleeper.page.size = 0;
}

// The page is away, and its dead parts with it.
void SleepingPages::leave(PageCut& cut) {
  for (Page& part : cut.parts) {
    part.handle = 0;
    part.sleep = PageSleep::Asleep;
  }
  if (cut.dead.empty())
    cut.segment->pages.at(cut.page.address) = cut.parts.front();
  else
    segments_.close_cut(cut);
  core_.shared.budget.give(cut.gain());
  bytes_.fetch_add(cut.alive());
}

// ---- Waking.

// Of the pages that are away, those that blocks still lie on.
void SleepingPages::claim() {
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.segment == nullptr) continue;
    const auto page = each.segment->pages.find(each.page.address);
    if (page != each.segment->pages.end() && page->second.sleep == PageSleep::Asleep)
      page->second.sleep = PageSleep::Busy;
    else if (page == each.segment->pages.end() || page->second.sleep != PageSleep::Busy)
      each.page.size = 0;
  }
}

Status SleepingPages::make() {
  const RelaxedCapture relaxed(core_.shared.driver);
  {
    CacheLock lock(core_.mutex);
    claim();
    accessors_ = core_.peers.accessors();
  }
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.page.handle != 0) continue;
    if (const Status made = make(each); !made.ok()) return made;
  }
  return {};
}

// As the program made its range, and as custash makes its own pages.
Status SleepingPages::make(Sleeper& sleeper) {
  Page& page = sleeper.page;
  MappedRange& range = sleeper.range;
  Page made;
  const Status status =
      sleeper.segment != nullptr
          ? core_.memory.make_page(page.address, page.size, &made)
          : core_.memory.make_page(
                page.address, page.size, range.properties, range.flags, &made);
  if (status.ok()) page.handle = range.handle = made.handle;
  return status;
}

void SleepingPages::unmake() {
  const RelaxedCapture relaxed(core_.shared.driver);
  contents_.wait().ignore();  // copies run yet
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.page.handle == 0) continue;
    if (core_.shared.deferred_unmaps.give_back(each.page).ok()) each.page.handle = 0;
  }
}

// A waking that found no room may have claimed pages, and have made some of them.
void SleepingPages::abandon() {
  for (const Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.segment == nullptr) continue;
    const auto page = each.segment->pages.find(each.page.address);
    if (page == each.segment->pages.end() || page->second.sleep != PageSleep::Busy) continue;
    page->second.handle = each.page.handle;
    page->second.sleep = each.page.handle == 0 ? PageSleep::Asleep : PageSleep::Awake;
  }
  forget();
  bytes_.store(0);
}

Status SleepingPages::give_access(std::size_t first, std::size_t last) {
  std::vector<CUdevice> devices{core_.device};
  devices.insert(devices.end(), accessors_.devices.begin(), accessors_.devices.end());
  for (std::size_t i = first; i < last;) {
    if (const MappedRange& range = sleepers_[i].range; sleepers_[i].segment == nullptr) {
      const Status status =
          sleepers_[i++].page.size == 0
              ? Status()
              : core_.shared.driver.mem_set_access(
                    range.address, range.size, range.access.data(), range.access.size());
      if (!status.ok()) return status;
      continue;
    }
    const Address begin = sleepers_[i].page.address;
    Address end = begin;
    do {
      end += sleepers_[i++].page.size;
    } while (i < last && sleepers_[i].page.address == end && sleepers_[i].segment != nullptr);
    if (end == begin) continue;
    for (const CUdevice device : devices) {
      const Status status = core_.memory.give_access(
          begin, end - begin, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      if (!status.ok()) return status;
    }
  }
  return {};
}

// Contents come back to the first pages while the next ones get access.
Status SleepingPages::restore(HostStore& store, std::string* why) {
  constexpr Bytes kAtOnce = 1_GiB;
  for (std::size_t begin = 0, end = 0; begin < sleepers_.size(); begin = end) {
    for (Bytes bytes = 0; end < sleepers_.size() && bytes < kAtOnce; ++end)
      bytes += sleepers_[end].page.size;
    if (const Status given = give_access(begin, end); !given.ok()) return given;
    const auto wanted = [&](std::size_t i) {
      return begin <= i && i < end && sleepers_[i].page.size != 0;
    };
    if (const Status status = contents_.restore(store, wanted, why); !status.ok())
      return status;
  }
  return contents_.wait();
}

Status SleepingPages::wake(HostStore& store, MappedMemory* mapped, std::string* why) {
  const RelaxedCapture relaxed(core_.shared.driver);
  if (const Status restored = restore(store, why); !restored.ok()) return restored;
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.segment != nullptr) continue;
    if (each.range.released) core_.shared.deferred_unmaps.release(each.range.handle);
    mapped->set_handle(each.range, each.range.handle);
    each.page.size = 0;  // the program's again, whatever becomes of our pages
  }
  for (;;) {
    {
      CacheLock lock(core_.mutex);
      if (core_.peers.accessors().changes == accessors_.changes) {
        for (const Sleeper& each : sleepers_) {
          if (each.page.size == 0) continue;
          Page& page = each.segment->pages.at(each.page.address);
          page.handle = each.page.handle;
          page.sleep = PageSleep::Awake;
        }
        contents_.woken();
        forget();
        bytes_.store(0);
        core_.headroom.forget();
        return {};
      }
      accessors_ = core_.peers.accessors();
    }
    if (const Status given = give_access(0, sleepers_.size()); !given.ok()) return given;
  }
}

}  // namespace custash
