// SPDX-License-Identifier: MIT
#include "allocator/sleep/page_replacement.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"

#include <utility>

namespace custash {
namespace {

// Addresses at which the parts are mapped while they are filled.
class Workshop {
 public:
  Workshop(const DriverMemory& memory, Bytes bytes) : memory_(memory), bytes_(bytes) {
    status_ = memory.reserve_exactly(bytes, &base_);
  }

  ~Workshop() {
    if (status_.ok()) memory_.unreserve(base_, bytes_);
  }

  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  [[nodiscard]] Status status() const { return status_; }

  [[nodiscard]] Address base() const { return base_; }

 private:
  const DriverMemory& memory_;
  const Bytes bytes_;
  Address base_ = 0;
  Status status_;
};

}  // namespace

bool PageReplacement::run() {
  try {
    if (!make_and_copy().ok() || !replace().ok()) return false;
  } catch (...) {  // no host memory
    return false;
  }
  core_->shared.deferred_unmaps.release(cut_.page.handle);
  return true;
}

// After it the parts have the contents, and are mapped nowhere. Else they have no memory.
Status PageReplacement::make_and_copy() {
  const Workshop workshop(core_->memory, cut_.alive());
  if (!workshop.status().ok()) return workshop.status();
  Status status = make(workshop.base());
  if (status.ok()) status = copy(workshop.base());
  if (status.ok()) status = core_->memory.unmap(workshop.base(), cut_.alive());
  if (status.ok()) return status;
  Address at = workshop.base();
  for (std::size_t i = 0; i < made_; ++i) {
    const Page& part = cut_.parts[i];
    core_->shared.deferred_unmaps.abandon({at, part.size, part.handle});
    at += part.size;
  }
  made_ = 0;
  return status;
}

Status PageReplacement::make(Address at) {
  const Address begin = at;
  for (Page& part : cut_.parts) {
    Page page;
    if (const Status status = core_->memory.make_page(at, part.size, &page); !status.ok())
      return status;
    part.handle = page.handle;
    ++made_;
    at += part.size;
  }
  return core_->memory.give_access(
      begin, at - begin, core_->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// The parts lie side by side from `at` on.
Status PageReplacement::copy(Address at) {
  if (!holds(Rule::cut_pages_keep_their_contents)) return {};
  CUstream const on = stream_->get();
  if (on == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Status status;
  auto part = cut_.parts.begin();
  for (auto each = cut_.contents.begin(); status.ok() && each != cut_.contents.end(); ++each) {
    for (; part->address + part->size <= each->address; ++part)
      at += part->size;
    CUSTASH_ASSERT(part->address <= each->address);
    CUSTASH_ASSERT(each->address + each->bytes <= part->address + part->size);
    status = core_->shared.driver.memcpy_dtod_async(
        at + (each->address - part->address), each->address, each->bytes, on);
  }
  if (!holds(Rule::copies_end_before_their_pages_go)) return status;
  // Also after an error: what was submitted before it must not run on.
  const Status waited = stream_->wait();
  return status.ok() ? waited : status;
}

Status PageReplacement::replace() {
  const Page& page = cut_.page;
  if (const Status unmapped = core_->memory.unmap(page.address, page.size); !unmapped.ok())
    return unmapped;
  away_ = lost_access_ = true;
  for (const Page& part : cut_.parts) {
    if (const Status placed = core_->memory.place(part); !placed.ok()) return placed;
    ++placed_;
  }
  return reach_and_commit(
      [&](const std::vector<CUdevice>& accessors) {
        Status status;
        for (auto part = cut_.parts.begin(); status.ok() && part != cut_.parts.end(); ++part)
          status = give_access(*part, accessors);
        return status;
      },
      [&]() REQUIRES(cache_lock) { segments_->close_cut(cut_); });
}

bool PageReplacement::restore() noexcept {
  try {
    if (!put_back().ok()) return false;
  } catch (...) {  // no host memory
    return false;
  }
  for (; made_ != 0; --made_)
    core_->shared.deferred_unmaps.release(cut_.parts[made_ - 1].handle);
  return true;
}

Status PageReplacement::put_back() {
  const Page& page = cut_.page;
  for (; placed_ != 0; --placed_) {
    const Page& part = cut_.parts[placed_ - 1];
    if (const Status gone = core_->memory.unmap(part.address, part.size); !gone.ok())
      return gone;
  }
  if (away_) {
    if (const Status placed = core_->memory.place(page); !placed.ok()) return placed;
    away_ = false;
  }
  return reach_and_commit(
      [&](const std::vector<CUdevice>& accessors) {
        return lost_access_ ? give_access(page, accessors) : Status();
      },
      [&]() REQUIRES(cache_lock) {
        cut_.segment->pages.at(page.address).sleep = PageSleep::Awake;
        cut_.segment->arena->abandon_cut(cut_, core_->timeline.fences().passed());
      });
}

Status PageReplacement::give_access(const Page& page,
                                    const std::vector<CUdevice>& accessors) const {
  Status status = core_->memory.give_access(
      page.address, page.size, core_->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (auto peer = accessors.begin(); status.ok() && peer != accessors.end(); ++peer) {
    status = core_->memory.give_access(
        page.address, page.size, *peer, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  return status;
}

// Calls `give` with all devices that may access the memory, and `commit` under the lock once no
// other has come meanwhile.
template <typename Give, typename Commit>
Status PageReplacement::reach_and_commit(Give give, Commit commit) {
  PeerAccess::Accessors accessors;
  {
    CacheLock lock(core_->mutex);
    accessors = core_->peers.accessors();
  }
  for (;;) {
    if (const Status given = give(accessors.devices); !given.ok()) return given;
    CacheLock lock(core_->mutex);
    if (core_->peers.accessors().changes == accessors.changes) {
      commit();
      return {};
    }
    accessors = core_->peers.accessors();
  }
}

void PageReplacement::abandon(std::vector<Page>* mapped) {
  try {
    mapped->insert(mapped->end(),
                   cut_.parts.begin(),
                   cut_.parts.begin() + static_cast<std::ptrdiff_t>(placed_));
  } catch (...) {  // no host memory: they stay mapped
  }
  for (std::size_t i = placed_; i < made_; ++i)
    core_->shared.deferred_unmaps.release_later(cut_.parts[i].handle);
  Page& page = cut_.segment->pages.at(cut_.page.address);
  page.sleep = away_ ? PageSleep::Asleep : PageSleep::Awake;  // asleep: nothing to unmap there
  if (away_) core_->shared.deferred_unmaps.release_later(page.handle);
}

}  // namespace custash
