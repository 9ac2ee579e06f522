// SPDX-License-Identifier: MIT
#include "allocator/cache/sleeping_pages.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

// ---- Going to sleep.

Bytes SleepingPages::collect(SleepSums* sums,
                             std::vector<Sleeper>* sleepers,
                             PageContents::Parts* parts) {
  staying_.look();
  Bytes offset = 0;
  const auto add_segment = [&](Segment& segment) REQUIRES(cache_lock) {
    const Block* block = segment.first;
    for (const auto& [address, page] : segment.pages) {
      const Address end = address + page.size;
      if (const auto reason = staying_.reason(page); reason != nullptr) {
        sums->*reason += page.size;
        continue;
      }
      while (block != nullptr && block->end() <= address)
        block = block->next;
      for (const Block* each = block; each != nullptr && each->address < end;
           each = each->next) {
        const Address from = std::max(each->address, address);
        const Address to = std::min(each->end(), end);
        if (from >= to || !each->has_contents()) continue;
        if (!parts->empty() && parts->back().sleeper == sleepers->size() &&
            parts->back().address + parts->back().bytes == from) {
          parts->back().bytes += to - from;
        } else {
          parts->push_back({sleepers->size(), from, to - from, offset});
        }
        offset += to - from;
      }
      sleepers->push_back({&segment, page});
      sums->asleep += page.size;
    }
  };
  for (const auto& pool : core_.pools) {
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->segments()) {
        if (segment->kind == SegmentKind::Plain)
          sums->plain += segment->mapped;
        else
          add_segment(*segment);
      }
    }
  }
  sums->saved += offset;
  return offset;
}

Bytes SleepingPages::needed() {
  SleepSums sums;
  std::vector<Sleeper> sleepers;
  PageContents::Parts parts;
  CacheLock lock(core_.mutex);
  return collect(&sums, &sleepers, &parts);
}

bool SleepingPages::choose(SleepSums* sums) {
  CUSTASH_ASSERT(sleepers_.empty() && contents_.parts().empty());
  CacheLock lock(core_.mutex);
  SleepSums mine;
  if (collect(&mine, &sleepers_, &contents_.parts()) > contents_.reserved()) {
    sleepers_.clear();
    contents_.clear();
    return false;
  }
  mark(PageSleep::Awake, PageSleep::Busy);
  *sums += mine;
  return true;
}

void SleepingPages::mark(PageSleep from, PageSleep to) {
  for (Sleeper& each : sleepers_) {
    const auto page = each.segment->pages.find(each.page.address);
    if (page != each.segment->pages.end() && page->second.sleep == from)
      page->second.sleep = to;
  }
}

void SleepingPages::cancel() {
  CacheLock lock(core_.mutex);
  mark(PageSleep::Busy, PageSleep::Awake);
  sleepers_.clear();
  contents_.clear();
}

Status SleepingPages::copy_out(HostStore& store, SleepSums* sums, std::string* why) {
  sums->in_file += contents_.in_file();
  return contents_.save(store, why);
}

void SleepingPages::give_back(SleepSums* sums) {
  const RelaxedCapture relaxed(core_.driver);
  for (Sleeper& each : sleepers_) {
    const bool gone = core_.memory.unmap(each.page.address, each.page.size).ok();
    if (gone) core_.deferred_unmaps.release(each.page.handle);
    CacheLock lock(core_.mutex);
    const auto page = each.segment->pages.find(each.page.address);
    CUSTASH_ASSERT(page != each.segment->pages.end() && page->second.sleep == PageSleep::Busy);
    page->second.sleep = gone ? PageSleep::Asleep : PageSleep::Awake;
    if (gone) {
      page->second.handle = 0;
      bytes_.fetch_add(each.page.size);
      continue;
    }
    sums->asleep -= each.page.size;
    sums->refused += each.page.size;
    each.page.size = 0;
  }
  if (!any()) {
    sleepers_.clear();
    contents_.clear();
  }
  core_.headroom.forget();
}

// ---- Waking.

// Of the pages that are away, those that blocks still lie on.
void SleepingPages::claim() {
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0) continue;
    const auto page = each.segment->pages.find(each.page.address);
    if (page != each.segment->pages.end() && page->second.sleep == PageSleep::Asleep)
      page->second.sleep = PageSleep::Busy;
    else if (page == each.segment->pages.end() || page->second.sleep != PageSleep::Busy)
      each.page.size = 0;
  }
}

Status SleepingPages::make() {
  for (Sleeper& each : sleepers_) {
    if (each.page.size == 0 || each.made) continue;
    Page made;
    const Status status = core_.memory.make_page(each.page.address, each.page.size, &made);
    if (!status.ok()) return status;
    each.page.handle = made.handle;
    each.made = true;
  }
  return {};
}

Status SleepingPages::give_access(const std::vector<CUdevice>& accessors) const {
  std::vector<CUdevice> devices{core_.device};
  devices.insert(devices.end(), accessors.begin(), accessors.end());
  for (std::size_t i = 0; i < sleepers_.size();) {
    const Address begin = sleepers_[i].page.address;
    Address end = begin;
    for (; i < sleepers_.size() && sleepers_[i].page.address == end; ++i) {
      if (sleepers_[i].page.size == 0) break;
      end += sleepers_[i].page.size;
    }
    if (end == begin) {
      ++i;
      continue;
    }
    for (const CUdevice device : devices) {
      const Status status = core_.memory.give_access(
          begin, end - begin, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      if (!status.ok()) return status;
    }
  }
  return {};
}

Status SleepingPages::wake(HostStore& store, Bytes* changed, std::string* why) {
  const RelaxedCapture relaxed(core_.driver);
  PeerAccess::Accessors accessors;
  {
    CacheLock lock(core_.mutex);
    claim();
    accessors = core_.peers.accessors();
  }
  if (const Status made = make(); !made.ok()) return made;
  if (const Status given = give_access(accessors.devices); !given.ok()) return given;
  const auto wanted = [&](std::size_t sleeper) { return sleepers_[sleeper].page.size != 0; };
  Bytes now_changed = 0;
  const Status copied = contents_.restore(store, wanted, &now_changed, why);
  if (!copied.ok()) return copied;
  *changed += now_changed;
  for (;;) {
    {
      CacheLock lock(core_.mutex);
      if (core_.peers.accessors().changes == accessors.changes) {
        for (const Sleeper& each : sleepers_) {
          if (each.page.size == 0) continue;
          Page& page = each.segment->pages.at(each.page.address);
          page.handle = each.page.handle;
          page.sleep = PageSleep::Awake;
        }
        sleepers_.clear();
        contents_.clear();
        bytes_.store(0);
        core_.headroom.forget();
        return {};
      }
      accessors = core_.peers.accessors();
    }
    if (const Status given = give_access(accessors.devices); !given.ok()) return given;
  }
}

void SleepingPages::abandon() {
  sleepers_.clear();
  contents_.clear();
  bytes_.store(0);
}

}  // namespace custash
