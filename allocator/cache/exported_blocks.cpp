// SPDX-License-Identifier: MIT
#include "allocator/cache/exported_blocks.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/freed_blocks.hpp"
#include "allocator/heap/page.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>
#include <bit>

namespace custash {
namespace {

// Sizes that are alike: one bit for each doubling.
std::uint64_t bit_of(Bytes bytes) {
  return std::uint64_t{1} << std::bit_width(bytes);
}

}  // namespace

// Small blocks share pages in the driver, too: their memory serves again at once. The pages of
// guarded blocks leave in any case.
bool ExportedBlocks::park(const BlockRef& found) {
  const Address base = found.small ? found.small.address() : found.large->address;
  const auto known = live_.extract(base);
  if (!known || known.mapped().users == 0 || found.small) return false;
  const Block& block = *found.large;
  Arena& arena = *block.segment->arena;
  if (arena.kind() == SizeKind::Small || arena.addresses_rest() ||
      !holds(Rule::exported_blocks_stay_when_freed))
    return false;
  CUSTASH_ASSERT(found.state() == BlockState::Busy && found.buffer_id() == 0);
  found.large->requested = 0;  // counted as active no more
  for (Block* part : arena.blocks().leave(found.large))
    left_[place_of(*part)].push_back({part, known.mapped()});
  return true;
}

std::vector<Block*> ExportedBlocks::close(Address base, std::uint64_t buffer_id) {
  if (const auto live = live_.find(base);
      live != live_.end() && live->second.buffer_id == buffer_id) {
    --live->second.users;
    return {};
  }
  std::vector<Block*> over;
  for (auto place = left_.begin(); place != left_.end();) {
    std::erase_if(place->second, [&](Part& part) {
      if (part.of.buffer_id != buffer_id || --part.of.users != 0) return false;
      over.push_back(part.block);
      return true;
    });
    place = place->second.empty() ? left_.erase(place) : std::next(place);
  }
  return over;
}

bool ExportedBlocks::handed_over(const std::vector<Part>& parts) const {
  return holds(Rule::pages_on_their_way_to_others_stay) &&
         std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
           return part.of.buffer_id == handed_over_;
         });
}

Position ExportedBlocks::left_until() const {
  Position latest;
  for (const auto& [place, parts] : left_)
    for (const Part& part : parts)
      latest = std::max(latest, part.block->reuse_after.latest());
  return latest;
}

// Calls it with the page and its parts, where the page may go.
template <typename Each>
void ExportedBlocks::for_pages_left(const Aliases& aliases, Position passed, Each each) {
  for (auto place = left_.begin(); place != left_.end();) {
    const auto now = place++;
    const auto& parts = now->second;
    Block* const inside = parts.front().block;
    if (inside->segment->kind == SegmentKind::Plain) continue;
    const Page& page = inside->segment->pages.at(now->first);
    const bool stays = page.sleep == PageSleep::Busy || aliases.has(page) || handed_over(parts);
    if (!stays && page_is_left(inside, page, passed)) each(now, Page(page));
  }
}

std::vector<PageReturn> ExportedBlocks::take_left(const Aliases& aliases, Position passed) {
  std::vector<PageReturn> items;
  for_pages_left(aliases, passed, [&](auto place, const Page& page) {
    Block* const inside = place->second.front().block;
    left_.erase(place);
    items.push_back(inside->segment->arena->take_left(inside, page));
  });
  return items;
}

Bytes ExportedBlocks::left_bytes(const Aliases& aliases, Position passed) {
  Bytes sum = 0;
  for_pages_left(aliases, passed, [&](auto place, const Page&) {
    for (const Part& part : place->second)
      sum += part.block->size;
  });
  return sum;
}

bool ExportedBlocks::has_plain_left() const {
  return std::any_of(left_.begin(), left_.end(), [](const auto& place) {
    return segment_is_left(*place.second.front().block->segment);
  });
}

std::vector<Segment*> ExportedBlocks::take_plain_left() {
  std::vector<Segment*> segments;
  for (auto place = left_.begin(); place != left_.end();) {
    const auto now = place++;
    Segment* const segment = now->second.front().block->segment;
    if (!segment_is_left(*segment) || handed_over(now->second)) continue;
    left_.erase(now);
    segment->arena->take_left(segment);
    segments.push_back(segment);
  }
  return segments;
}

// Order: none, a hint by itself.
bool FreedBlocks::has_exported(Bytes bytes) const {
  return (exported_sizes_.load(std::memory_order_relaxed) & bit_of(bytes)) != 0;
}

bool FreedBlocks::export_block(Address base,
                               std::uint64_t buffer_id,
                               Exporting how,
                               ExportedBlock* out) {
  CacheLock lock(core_.mutex);
  const BlockRef found = locate(base);
  if (!found) return false;
  // From now on each free of the block takes the slow path: the order of one stream is not
  // enough.
  if (holds(Rule::exported_blocks_take_the_long_way)) found.marks().shared_streams = true;
  if (found.buffer_id() != buffer_id) return false;
  const Block& block = found.small ? *found.small.slab->backing : *found.large;
  const Segment& segment = *block.segment;
  *out = {.cache = &core_.cache,
          .base = base,
          .buffer_id = buffer_id,
          .requested = found.requested(),
          .context = core_.context,
          .device = core_.device};
  if (segment.kind == SegmentKind::Plain) {
    out->segment = segment.base;
  } else {
    const Address end = base + out->requested;
    auto page = segment.pages.upper_bound(base);
    if (page == segment.pages.begin()) return false;
    for (--page; page != segment.pages.end() && page->first < end; ++page)
      out->pages.push_back(page->second);
  }
  ExportedBlocks::Export& known = exported_blocks_.of(base, buffer_id);
  if (how == Exporting::Offer) known.offered = true;
  if (how == Exporting::Open) ++known.users;
  out->offered = known.offered;
  exported_sizes_.fetch_or(bit_of(out->requested));
  return true;
}

void FreedBlocks::unpin(Address base, std::uint64_t buffer_id) {
  CacheLock lock(core_.mutex);
  for (Block* block : exported_blocks_.close(base, buffer_id))
    put_back(block);
}

// The other process has waited for its own work. Work submitted here meanwhile may still run.
void FreedBlocks::put_back(Block* block) {
  const Position position = core_.timeline.submissions().submitted();
  block->leaves = false;
  block->reuse_after = holds(Rule::blocks_closed_elsewhere_wait_for_work_here)
                           ? ReuseAfter{.ordered = position}
                           : ReuseAfter{};
  const BlockRef found{.small = {}, .large = block};
  put(found, is_ready(found));
}

bool FreedBlocks::hand_over(Address base, std::uint64_t buffer_id) {
  CacheLock lock(core_.mutex);
  const bool live = exported_blocks_.find(base, buffer_id) != nullptr;
  exported_blocks_.hand_over(live ? buffer_id : 0);
  return live;
}

void FreedBlocks::handed_over() {
  CacheLock lock(core_.mutex);
  exported_blocks_.hand_over(0);
}

std::vector<PageReturn> FreedBlocks::take_left(const Aliases& aliases) {
  std::vector<PageReturn> items = exported_blocks_.take_left(aliases, fences_.passed());
  anything_left_.store(exported_blocks_.any_left());
  return items;
}

}  // namespace custash
