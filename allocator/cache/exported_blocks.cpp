// SPDX-License-Identifier: MIT
#include "allocator/cache/exported_blocks.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/freed_blocks.hpp"
#include "allocator/heap/exported_block.hpp"
#include "allocator/heap/pool.hpp"

namespace custash {

BlockRef ExportedBlocks::end(Address base) {
  const auto it = exported_blocks_.find(base);
  if (it == exported_blocks_.end() || --it->second.count != 0)
    return {};  // its context may have ended
  const BlockRef parked = it->second.parked;
  exported_blocks_.erase(it);
  return parked;
}

bool ExportedBlocks::park(const BlockRef& found) {
  if (exported_blocks_.empty()) return false;
  const auto it =
      exported_blocks_.find(found.small ? found.small.address() : found.large->address);
  if (it == exported_blocks_.end()) return false;
  CUSTASH_ASSERT(it->second.count != 0 && !it->second.parked);
  CUSTASH_ASSERT(found.state() == BlockState::Busy && found.buffer_id() == 0);
  it->second.parked = found;
  return true;
}

bool FreedBlocks::pin(Address base, std::uint64_t buffer_id, ExportedBlock* out) {
  CacheLock lock(core_.mutex);
  const BlockRef found = locate(base);
  if (!found) return false;
  // From now on each free of the block takes the slow path: the order of one stream is not
  // enough.
  if (holds(Rule::exported_blocks_take_the_long_way)) found.marks().shared_streams = true;
  if (found.buffer_id() != buffer_id) return false;
  const Block& block = found.small ? *found.small.slab->backing : *found.large;
  const Segment& segment = *block.segment;
  *out = {
      .cache = &core_.cache, .base = base, .context = core_.context, .device = core_.device};
  out->requested = found.requested();
  if (segment.kind == SegmentKind::Plain) {
    out->segment = segment.base;
  } else {
    const Address end = base + out->requested;
    auto page = segment.pages.upper_bound(base);
    if (page == segment.pages.begin()) return false;
    for (--page; page != segment.pages.end() && page->first < end; ++page)
      out->pages.push_back(page->second);
  }
  exported_blocks_.begin(base);
  return true;
}

void FreedBlocks::unpin(Address base) {
  CacheLock lock(core_.mutex);
  const BlockRef parked = exported_blocks_.end(base);
  if (!parked) return;
  // The other process has waited for its own work. Work submitted here meanwhile may still run.
  const Position position = core_.timeline.submitted();
  parked.reuse_after() = holds(Rule::blocks_closed_elsewhere_wait_for_work_here)
                             ? ReuseAfter{.ordered = position}
                             : ReuseAfter{};
  atomic_max(core_.order_high, position);
  give(parked);
}

bool FreedBlocks::is_pinned(Address base) {
  CacheLock lock(core_.mutex);
  return exported_blocks_.has(base);
}

}  // namespace custash
