// SPDX-License-Identifier: MIT
#include "allocator/cache/growth.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <string>

namespace custash {
namespace {

Bytes held(const DeviceStats& stats) {
  return static_cast<Bytes>(stats.reserved_bytes[0].current);
}

// The most bytes that were in use since the last trim, including the request.
Bytes most_in_use(const CacheCore& core, const Request& request) REQUIRES(cache_lock) {
  const auto wanted = static_cast<std::int64_t>(request.rounded);
  return static_cast<Bytes>(
      std::max({core.settling.most(), core.stats.allocated_bytes[0].current + wanted, wanted}));
}

// Slabs are needed one by one, but each driver call costs time. So a small share of the held
// memory is made at once.
Bytes slab_growth(Bytes all) {
  return std::clamp<Bytes>(align_down(all / 256, kSlabBytes), kSlabBytes, 8_MiB);
}

// The least to make at once, since each driver call costs time. A program that grows uses the
// rest for its next requests.
Bytes slack(const Arena& arena, Bytes all, Bytes room) {
  if (arena.kind() == SizeKind::Small) return slab_growth(all);
  return align_down(
      std::max(arena.mapped() / kShareBeforeMoves, std::min(all / kShareAhead, room)),
      kPageBytes);
}

// The memory that a request needs. Small requests share pages, so they count as one size.
Bytes size_of(const Request& request) {
  return request.small() || request.rounded <= kSmallLimit ? kSlabBytes : request.rounded;
}

}  // namespace

// While the process sleeps, the memory that it needs to wake counts as used.
void MemoryGrowth::leave_room_to_wake(const Request& request) {
  SleepGate& gate = core_.shared.sleep_gate;
  const SleepState state = gate.state();
  if (state == SleepState::Awake) return;
  if (state == SleepState::GoingToSleep && gate.asleep.load() == 0) return;
  const Bytes new_bytes = std::max(2 * request.rounded, 256_MiB);
  const Bytes promised = gate.promised.fetch_add(new_bytes) + new_bytes;
  if (state == SleepState::Waking || core_.memory.free_bytes() < gate.asleep.load() + promised)
    gate.pass();
}

Status MemoryGrowth::grow(const Request& wanted, Address* out) {
  leave_room_to_wake(wanted);
  Request request = wanted;
  Pool* pool = nullptr;
  {
    CacheLock lock(core_.mutex);
    pool = &search_.pool_of(request);
    if (wanted.small()) {
      pool->slabs.pages_wanted();
      if (!search_.cuts_slabs(wanted)) request = whole(wanted);
    }
  }
  Arena& arena = wanted.small() ? pool->small_pages : pool->large;
  if (core_.memory.vmm()) {
    const Status status = request.own_pages ? grow_apart(arena, request, false, out)
                                            : grow_range(*pool, arena, request, out);
    if (status.ok() || status.code() == CUDA_ERROR_OUT_OF_MEMORY ||
        core_.timeline.events().broken())
      return status;
    log(LogLevel::Error,
        "event=vmm_refused code=" + std::to_string(status.code()) + " backing=driver");
    core_.memory.give_up_vmm();
  }
  return grow_plain(*pool, arena, request, out);
}

bool MemoryGrowth::moved_too_often(const Request& request) {
  const auto lives = [&](const Refaults::Served& served) {
    const PageOwner owner = core_.shared.pages.find(served.address);
    if (size_of(request) != kSlabBytes)
      return owner.block != nullptr && owner.block->buffer_id == served.buffer_id;
    return owner.slab != nullptr ||
           (owner.segment != nullptr && owner.segment->arena->kind() == SizeKind::Small);
  };
  const std::int64_t now = core_.stats.requests();
  return core_.refaults.paid_off(size_of(request), now, core_.settling.settled(now), lives);
}

void MemoryGrowth::note_got(const Request& request, Address address) {
  const BlockRef found = freed_.locate(address);
  CUSTASH_ASSERT(found);
  core_.refaults.got(
      size_of(request),
      {.address = address, .buffer_id = found.buffer_id(), .when = core_.stats.requests()});
}

// How much may be made. The limit on held memory is the most that was in use, plus a
// `share` of it, plus the bytes that searches missed.
Bytes MemoryGrowth::room_to_make(const Request& request, Bytes share) const {
  const Bytes most = most_in_use(core_, request);
  const Bytes allowed = most + most / share + core_.refaults.allowed();
  const Bytes now_held = held(core_.stats);
  const Bytes room = allowed > now_held ? allowed - now_held : 0;
  return align_down(std::min(room, core_.headroom.left()), kPageBytes);
}

// The bytes to return first, so that no more is held than otherwise: no page moves into a block
// that lies in one.
Bytes MemoryGrowth::excess(const Request& request) {
  CacheLock lock(core_.mutex);
  const Bytes need = align_up(request.rounded, kPageBytes);
  return need - std::min(need, room_to_make(request, kShareBeforeMoves));
}

bool MemoryGrowth::plan(Arena& arena, const Request& request, Nanoseconds now, Growth* out) {
  const bool cheap = mapping_cost_.is_small(now);
  const Bytes bytes = request.small() ? kSlabBytes : request.rounded;
  const ReuseLimits asked =
      core_.reuse_limits(request, core_.timeline.submissions().single_stream());
  const Fit fit = fit_of(arena, core_.headroom.nearly_full(), core_.shared.whole_blocks.on());
  Bytes need = 0;
  if (!arena.open_growth(bytes, asked, fit, out, &need)) return false;
  if (fit == Fit::OnePage) {
    // One page: of its own for a large block, shared with others for smaller ones.
    const Bytes ahead = slack(arena, held(core_.stats), room_to_make(request, kShareAhead));
    const Bytes made = std::max(need, std::min({ahead, kHandleBytes, out->hole->size}));
    arena.close_growth(out, made);
    out->made = out->handle = made;
    return true;
  }
  const Bytes most_used = most_in_use(core_, request);
  Bytes finer = finer_handle_bytes(held(core_.stats) + need, most_used);
  if (cheap) finer = std::min(finer, finest_handle_bytes(most_used));
  const bool makes = moved_too_often(request);
  Bytes room = room_to_make(request, kShareBeforeMoves);
  // Bought: beyond the limit, in place of moves.
  const Bytes left = align_down(core_.headroom.left(), kPageBytes);
  const bool too_much = cheap && held(core_.stats) + need > most_used + most_bought(most_used);
  if (makes && !too_much && need > room && need <= left && !core_.headroom.nearly_full()) {
    out->bought = need - room;
    room = need;
  }
  if (need > room) freed_.return_empty_slabs(asked.passed);
  const Bytes most = out->hole->size;
  Bytes moved = 0;
  for (std::size_t at = 0; Pool* const each = core_.pools.next_filled(&at);) {
    for (Arena* from : {&each->large, &each->small_pages}) {
      if (!each->lends()) continue;
      if (need <= room + moved) continue;
      const Bytes before = moved;
      moved += from->collect_moves(need - room - moved, most - moved, asked, &out->moves);
      if (moved != before && from == &each->small_pages) each->slabs.pages_given_up();
    }
  }
  std::size_t handles = 0;
  for (const PageMove& move : out->moves) {
    handles += move.item.pages.size();
    segments_.take_out(*move.from, move.item);
    if (holds(Rule::moved_pages_wait_as_before))
      out->block->reuse_after.join(move.item.block->reuse_after, asked.passed);
  }
  if (handles != 0) core_.refaults.moved(size_of(request), handles);
  Bytes made = moved < need ? need - moved : 0;
  if (made != 0 && !core_.headroom.nearly_full())
    made = std::clamp(slack(arena, held(core_.stats), room_to_make(request, kShareAhead)),
                      made,
                      std::max(made, most - moved));
  CUSTASH_ASSERT(moved + made >= need && moved + made <= most);
  CUSTASH_ASSERT(moved % kPageBytes == 0 && made % kPageBytes == 0);
  arena.close_growth(out, moved + made);
  out->made = made;
  out->handle = std::min(handle_bytes(made, core_.headroom.left()), finer);
  return true;
}

// A large block rarely ends where its page does. The rest of that page cannot be moved. It
// serves small requests once no more memory should be made.
Address MemoryGrowth::take_gap(Pool& pool, const Request& request) {
  if (core_.headroom.nearly_full() || room_to_make(request, kShareBeforeMoves) >= kSlabBytes)
    return 0;
  const ReuseLimits asked =
      core_.reuse_limits(request, core_.timeline.submissions().single_stream());
  const Bytes bytes = request.small() ? kSlabBytes : request.rounded;
  for (std::size_t at = 0; Pool* const each = core_.pools.next_filled(SizeKind::Large, &at);) {
    if (!each->shares()) continue;
    Block* block = each->large.blocks().take_gap(bytes, asked);
    if (block != nullptr) return search_.hand_out_new(pool, block, request);
  }
  return 0;
}

// Restores the state from before plan().
void MemoryGrowth::abandon(Arena& arena, const Growth& growth) {
  for (const PageMove& move : growth.moves)
    segments_.commit_return(*move.from, move.item, 0);
  arena.abandon_growth(growth, core_.timeline.fences().passed());
}

Status MemoryGrowth::grow_range(Pool& pool,
                                Arena& arena,
                                const Request& request,
                                Address* out) {
  stale_.unmap_unused();
  Growth growth;
  bool planned = false;
  const Nanoseconds now = core_.shared.driver.now();
  for (int attempt = 0; !planned && attempt < 2; ++attempt) {
    if (attempt == 1) {
      const Status status = add_range(arena, std::max(request.rounded, kSlabBytes));
      if (!status.ok()) return status;
    }
    CacheLock lock(core_.mutex);
    if (&arena == &pool.small_pages) {
      *out = take_gap(pool, request);
      if (*out != 0) return {};
    }
    planned = plan(arena, request, now, &growth);
  }
  if (!planned) return CUDA_ERROR_OUT_OF_MEMORY;
  return fill(arena, growth, [&](const std::vector<Page>& mapped) REQUIRES(cache_lock) {
    for (const PageMove& move : growth.moves) {
      move.from->leave_stale(move.item);
      stale_.add(move.item.block, move.item.pages);
      core_.stats.num_pages_moved += static_cast<std::int64_t>(move.item.pages.size());
    }
    core_.refaults.allow(growth.bought);
    const Bytes bytes = request.small() ? kSlabBytes : request.rounded;
    *out = search_.hand_out_new(pool, arena.commit_growth(growth, mapped, bytes), request);
    note_got(request, *out);
    // Moves and what is bought for them come from the rounds of a program, not from its growth.
    if (growth.made != 0 && growth.bought == 0) core_.settling.memory_came();
  });
}

Status MemoryGrowth::grow_apart(Arena& arena,
                                const Request& request,
                                bool at_end,
                                Address* out) {
  const Bytes size = align_up(request.rounded, kPageBytes);
  Growth growth;
  bool planned = false;
  for (int attempt = 0; !planned && attempt < 2; ++attempt) {
    Status status;
    if (attempt == 1) status = add_range(arena, size + 2 * kPageBytes);
    CacheLock lock(core_.mutex);
    planned = arena.open_apart(size, &growth);
    if (status.ok()) continue;
    const bool lacks_addresses = status.code() == CUDA_ERROR_OUT_OF_MEMORY;
    while (!planned && lacks_addresses && arena.end_oldest_rest())
      planned = arena.open_apart(size, &growth);
    if (!planned) return status;
  }
  if (!planned) return CUDA_ERROR_OUT_OF_MEMORY;
  growth.handle = size;
  return fill(arena, growth, [&](const std::vector<Page>& mapped) REQUIRES(cache_lock) {
    Block* const block = at_end ? arena.commit_at_end(growth, mapped, request.rounded)
                                : arena.commit_growth(growth, mapped, request.rounded);
    *out = search_.hand_out_large(block, request);
  });
}

// Maps the pages of a growth, and commits it; or nothing has happened. `commit(mapped)` enters
// the pages into the arena.
template <typename Commit>
Status MemoryGrowth::fill(Arena& arena, const Growth& growth, Commit commit) {
  std::vector<Page> moved;
  for (const PageMove& move : growth.moves)
    moved.insert(moved.end(), move.item.pages.begin(), move.item.pages.end());
  PeerAccess::Accessors accessors;
  {
    CacheLock lock(core_.mutex);
    accessors = core_.peers.accessors();
  }
  std::vector<Page> mapped;
  Status status = CUDA_ERROR_OUT_OF_MEMORY;
  Quota::Call call{Quota::Call::Later{}};
  const bool allowed = core_.shared.budget.take(growth.made, &call);
  if (allowed && core_.shared.pages.prepare(growth.begin(), growth.end())) {
    status = core_.memory.map(
        growth.begin(), growth.end(), growth.handle, moved, accessors.devices, &mapped);
  }
  std::vector<CUdevice> late;  // peers that came during map()
  const Nanoseconds mapped_at = core_.shared.driver.now();
  {
    CacheLock lock(core_.mutex);
    if (!status.ok()) {
      if (allowed) core_.shared.budget.give(growth.made);
      abandon(arena, growth);
      return status;
    }
    const PeerAccess::Accessors& now = core_.peers.accessors();
    if (accessors.changes != now.changes && holds(Rule::new_pages_reach_new_peers))
      late = now.devices;
    core_.headroom.use(growth.made);
    mapping_cost_.note(mapped_at, mapped.size());
    segments_.enter(*growth.block->segment, growth.begin(), growth.end(), mapped.size());
    commit(mapped);
  }
  for (const CUdevice peer : late) {
    for (const Page& page : mapped) {
      core_.memory
          .give_access(page.address, page.size, peer, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
          .ignore();
    }
  }
  return {};
}

Status MemoryGrowth::add_range(Arena& arena, Bytes bytes) {
  Address base = 0;
  Bytes size = 0;
  const Status status = core_.memory.reserve(bytes, &base, &size);
  if (!status.ok()) return status;
  CacheLock lock(core_.mutex);
  arena.add_range(segments_.make(base, size, SegmentKind::Range, arena));
  return {};
}

Status MemoryGrowth::grow_plain(Pool& pool,
                                Arena& arena,
                                const Request& request,
                                Address* out) {
  Bytes size = 0;
  {
    CacheLock lock(core_.mutex);
    size = arena.kind() == SizeKind::Small ? slab_growth(held(core_.stats))
                                           : driver_segment_bytes(request.rounded);
  }
  const Bytes least = request.small() ? kSlabBytes : align_up(request.rounded, kPageBytes);
  if (core_.headroom.nearly_full() || request.own_pages) size = least;
  Address base = 0;
  Quota::Call call{Quota::Call::Later{}};
  const auto try_size = [&]() -> Status {
    if (!core_.shared.budget.take(size, &call)) return CUDA_ERROR_OUT_OF_MEMORY;
    const Status status = core_.memory.alloc(size, &base);
    if (status.ok()) {
      core_.headroom.use(size);
    } else {
      core_.shared.budget.give(size);
      call.end();
    }
    return status;
  };
  Status status = try_size();
  if (!status.ok() && size > least) {
    size = least;
    status = try_size();
  }
  if (!status.ok()) return status;
  if (!core_.shared.pages.prepare(base, base + size)) {
    // The page map cannot hold these addresses. The caller gets memory that only the driver
    // knows, and the driver frees it.
    core_.shared.budget.give(size);
    if (const Status freed = core_.memory.free(base); !freed.ok()) return freed;
    return core_.memory.alloc(request.bytes, out);
  }
  CacheLock lock(core_.mutex);
  Segment* segment = segments_.make(base, size, SegmentKind::Plain, arena);
  segments_.enter(*segment, base, base + size, 1);
  const Bytes bytes = request.small() ? kSlabBytes : request.rounded;
  *out = search_.hand_out_new(pool, arena.add_plain(segment, bytes), request);
  return {};
}

}  // namespace custash
