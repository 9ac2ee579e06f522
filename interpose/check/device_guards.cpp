// SPDX-License-Identifier: MIT
#include "interpose/check/device_guards.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace custash {

Arena& DeviceGuards::arena() {
  if (Arena* const known = arena_.load(std::memory_order_relaxed)) return *known;
  Pool& made = core_.pools.add();
  made.guarded = true;
  made.large.let_addresses_rest(core_.memory.device_bytes());  // half of a range
  arena_.store(&made.large, std::memory_order_relaxed);
  return made.large;
}

DeviceGuards::Timed::~Timed() {
  const Nanoseconds end = core_.shared.driver.now();
  CacheLock lock(core_.mutex);
  core_.stats.guard_time_ns += static_cast<std::int64_t>(end - begin_);
}

void DeviceGuards::count_pages(const GuardedBlock& block, int sign) {
  core_.stats.guard_bytes += sign * static_cast<std::int64_t>(block.end - block.begin);
}

// Each look asks the driver about events. So where few blocks have guards, one in 64 calls
// looks.
void DeviceGuards::freed() {
  constexpr std::uint32_t kOneIn = 64;
  if (core_.shared.config.guard.one_in == 1 ||
      calls_.fetch_add(1, std::memory_order_relaxed) % kOneIn == 0)
    collect();
}

bool DeviceGuards::allocate(const Request& request, Address* out) {
  freed();  // an allocation looks at them as often as a free does
  return sampler_.wants(core_.shared.config.guard, request.bytes) && guard(request, out);
}

// An allocation never fails because it should be guarded.
bool DeviceGuards::guard(const Request& request, Address* out) {
  const Timed timed(core_);
  Status status = CUDA_ERROR_OUT_OF_MEMORY;
  // A guarded block takes whole pages. On a nearly full device others need them.
  const bool room = core_.memory.vmm() && !core_.headroom.update() &&
                    core_.headroom.left() > request.bytes + core_.memory.device_bytes() / 16;
  if (room) {
    Arena* where = nullptr;
    bool at_end = false;
    {
      CacheLock lock(core_.mutex);
      where = &arena();
      at_end = guarded_++ % 2 == 0;
    }
    Request apart = whole(request);
    apart.own_pages = false;                              // it has them in any case
    apart.rounded = align_up(request.bytes, kAlignment);  // as near to a page's end as can be
    status = growth_.grow_apart(*where, apart, at_end, out);
  }
  if (status.ok()) {
    const Address begin = align_down(*out, kPageBytes);
    GuardedBlock block{begin, align_up(*out + request.bytes, kPageBytes), *out, request.bytes};
    block.filled = slack_.fill(block);
    if (core_.shared.config.guard.fill) fill(block);
    CacheLock lock(core_.mutex);
    blocks_[begin] = block;
    count_pages(block, 1);
    ++made_;
    ++core_.stats.num_guarded;
    note_freed(arena());
    return true;
  }
  bool first = false;
  {
    CacheLock lock(core_.mutex);
    first = core_.stats.num_unguarded++ == 0;
  }
  if (first) log_no_room("device", request.bytes, "blocks");
  return false;
}

void DeviceGuards::fill(const GuardedBlock& block) {
  CUevent over = nullptr;
  {
    CacheLock lock(core_.mutex);
    if (!spare_fills_.empty()) {
      over = spare_fills_.back();
      spare_fills_.pop_back();
    }
  }
  const bool begun = slack_.fill_block(block, &over);
  CacheLock lock(core_.mutex);
  if (begun) fills_under_way.fetch_add(1);
  if (over != nullptr) (begun ? fills_ : spare_fills_).push_back(over);
}

void DeviceGuards::order_fills(const CUstream* stream) {
  std::vector<CUevent> fills;
  {
    CacheLock lock(core_.mutex);
    fills = fills_;
  }
  if (fills.empty()) return;
  const Timed timed(core_);
  const RelaxedCapture relaxed(core_.shared.driver);
  Patience::Wait waiting(core_.timeline.fences().patience());
  for (CUevent fill : fills) {
    CUresult state = core_.shared.driver.event_query(fill);
    if (state == CUDA_ERROR_NOT_READY && stream != nullptr && comes_after(*stream, fill))
      continue;
    while (state == CUDA_ERROR_NOT_READY && waiting.go_on())
      state = core_.shared.driver.event_query(fill);
    if (state == CUDA_ERROR_NOT_READY) return;
    CacheLock lock(core_.mutex);
    if (std::erase(fills_, fill) == 0) continue;  // another thread has seen it
    spare_fills_.push_back(fill);
    fills_under_way.fetch_sub(1);
  }
}

// Work that is captured comes after it when its graph is launched.
bool DeviceGuards::comes_after(CUstream stream, CUevent fill) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (core_.shared.driver.stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE)
    return true;
  return core_.shared.driver.stream_wait_event(stream, fill, 0) == CUDA_SUCCESS;
}

std::size_t DeviceGuards::count_used(const Arena& arena) {
  std::size_t used = 0;
  for (const Segment* segment : arena.segments())
    used += segment->owned;
  return used;
}

// A block is handed out shortly before blocks_ has it.
std::size_t DeviceGuards::count_freed(const Arena& arena) const {
  return blocks_.size() - std::min(blocks_.size(), count_used(arena));
}

void DeviceGuards::note_freed(const Arena& arena) {
  const auto now = static_cast<std::uint32_t>(count_freed(arena) + leaving_.size());
  freed_with_pages.fetch_add(now - freed_here_);
  freed_here_ = now;
}

void DeviceGuards::collect() {
  collect(Asking::Once);
}

void DeviceGuards::collect(Asking asking) {
  Arena* const arena = arena_.load(std::memory_order_relaxed);
  if (arena == nullptr) return;
  const Position until = core_.timeline.submissions().submitted();
  {
    CacheLock lock(core_.mutex);
    const std::size_t used = count_used(*arena);
    if (used + frees_seen_ < made_) {
      frees_seen_ = made_ - used;
      atomic_max(wanted_, until);
    }
    note_freed(*arena);
  }
  collect(*arena, until, asking);
}

void DeviceGuards::collect_freed() {
  Arena* const arena = arena_.load(std::memory_order_relaxed);
  if (arena == nullptr || core_.timeline.events().broken() ||
      core_.timeline.events().capturing())
    return;
  {
    CacheLock lock(core_.mutex);
    if (freed_here_ == 0) return;
  }
  collect(*arena, wanted_.load(), Asking::Briefly);
}

void DeviceGuards::collect(Arena& arena, Position until, Asking asking) {
  if (collecting_.exchange(true)) return;
  std::vector<Leaving> leaving;
  bool freed = false;
  {
    CacheLock lock(core_.mutex);
    leaving = std::exchange(leaving_, {});
    freed = count_freed(arena) != 0;
  }
  if (freed || !leaving.empty()) {
    const Timed timed(core_);
    go_on(arena, until, asking, freed, &leaving);
  }
  {
    CacheLock lock(core_.mutex);
    leaving_ = std::move(leaving);
    note_freed(arena);
  }
  collecting_.store(false);
}

void DeviceGuards::go_on(
    Arena& arena, Position until, Asking asking, bool freed, std::vector<Leaving>* leaving) {
  end_looks(arena, leaving);
  if (freed) {
    core_.timeline.fences().poll(until);
    if (asking == Asking::Briefly) poll_briefly(until);
    begin_looks(arena, leaving);
  }
  if (asking == Asking::Briefly && !leaving->empty() && !leaving->back().awaited) {
    wait_briefly(leaving->back().look);
    for (Leaving& each : *leaving)
      each.awaited = true;
    end_looks(arena, leaving);
  }
}

// A fence that was just recorded does not pass at once, even if the device has long been idle.
void DeviceGuards::poll_briefly(Position until) {
  constexpr int kQuestions = 100;  // about 20 µs
  if (asked_.load() >= until) return;
  asked_.store(until);
  for (int i = 0; i < kQuestions && core_.timeline.fences().passed() < until; ++i)
    core_.timeline.fences().poll(until);
}

// The copies are on a stream of custash's, behind nothing of the program's.
void DeviceGuards::wait_briefly(const GuardSlack::Look& look) const {
  constexpr int kQuestions = 500;  // about 100 µs
  for (int i = 0; i < kQuestions && slack_.state_of(look) == CUDA_ERROR_NOT_READY; ++i) {
  }
}

void DeviceGuards::give_way() {
  constexpr int kTries = 1000;
  constexpr Nanoseconds kPause = 1'000'000;
  Arena* const arena = arena_.load(std::memory_order_relaxed);
  if (arena == nullptr || core_.timeline.events().broken()) return;
  for (int i = 0; i < kTries; ++i) {
    collect(Asking::Briefly);
    {
      CacheLock lock(core_.mutex);
      if (leaving_.empty() && count_freed(*arena) == 0) return;
    }
    const Timed timed(core_);
    core_.shared.driver.rest(kPause);
  }
}

void DeviceGuards::check_all() {
  if (arena_.load(std::memory_order_relaxed) == nullptr || core_.timeline.events().broken())
    return;
  give_way();
  // Meanwhile no other thread releases pages.
  if (collecting_.exchange(true)) return;
  look_at_living();
  collecting_.store(false);
}

void DeviceGuards::look_at_living() {
  constexpr int kTries = 1000;
  constexpr Nanoseconds kPause = 1'000'000;
  const Timed timed(core_);
  std::vector<GuardedBlock> living;
  {
    CacheLock lock(core_.mutex);
    for (const auto& [begin, block] : blocks_)
      living.push_back(block);
  }
  for (const GuardedBlock& block : living) {
    GuardSlack::Look look;
    {
      CacheLock lock(core_.mutex);
      look = take_spare(slack_.room_for(block));
    }
    if (!slack_.begin(block, &look)) return;
    wait_briefly(look);
    CUresult state = slack_.state_of(look);
    for (int i = 0; i < kTries && state == CUDA_ERROR_NOT_READY; ++i) {
      core_.shared.driver.rest(kPause);
      state = slack_.state_of(look);
    }
    if (state != CUDA_SUCCESS) return;
    report_slack(block, look);
    CacheLock lock(core_.mutex);
    spare_.push_back(look);
  }
}

// Falls back to any spare room once the limit on large ones is reached.
GuardSlack::Look DeviceGuards::take_spare(Bytes room) {
  auto found = std::find_if(spare_.begin(), spare_.end(), [&](const GuardSlack::Look& each) {
    return each.room == room;
  });
  if (found == spare_.end() && !slack_.may_have(room)) found = spare_.begin();
  if (found == spare_.end()) return {};
  const GuardSlack::Look look = *found;
  spare_.erase(found);
  return look;
}

void DeviceGuards::begin_looks(Arena& arena, std::vector<Leaving>* leaving) {
  for (PageReturn& item : reclaim_.take_free(arena)) {
    Leaving one{std::move(item), {}, {}, false};
    {
      CacheLock lock(core_.mutex);
      const auto known = blocks_.extract(one.item.block->address);
      CUSTASH_ASSERT(known);
      one.block = known.mapped();
      one.look = take_spare(slack_.room_for(one.block));
    }
    if (!slack_.begin(one.block, &one.look)) {
      reclaim_.give_back(arena, one.item);
      CacheLock lock(core_.mutex);
      count_pages(one.block, -1);
      continue;
    }
    CacheLock lock(core_.mutex);
    arena.leave_stale(one.item);  // unowned while the copies are under way
    // The map has its leaves already. Until the pages are gone, questions about these addresses
    // have the answer for freed memory.
    (void)core_.shared.pages.set(one.block.begin, one.block.end, one.item.block->segment);
    leaving->push_back(std::move(one));
  }
}

void DeviceGuards::end_looks(Arena& arena, std::vector<Leaving>* leaving) {
  std::erase_if(*leaving, [&](const Leaving& each) {
    const CUresult state = slack_.state_of(each.look);
    if (state == CUDA_ERROR_NOT_READY) return false;
    if (state == CUDA_SUCCESS) report_slack(each.block, each.look);
    {
      CacheLock lock(core_.mutex);
      each.item.block->state = BlockState::Busy;
      core_.shared.pages.clear(each.block.begin, each.block.end);
    }
    reclaim_.give_back(arena, each.item);
    CacheLock lock(core_.mutex);
    count_pages(each.block, -1);
    spare_.push_back(each.look);
    return true;
  });
}

void DeviceGuards::report_slack(const GuardedBlock& block, const GuardSlack::Look& look) {
  const auto what = GuardSlack::found(block, look);
  if (!what) return;
  {
    CacheLock lock(core_.mutex);
    ++core_.stats.num_overwritten;
  }
  char text[200];
  (void)std::snprintf(text,
                      sizeof text,
                      "event=guard_overwritten address=%#llx bytes=%llu byte=%llu %s",
                      static_cast<unsigned long long>(what->address),
                      static_cast<unsigned long long>(what->bytes),
                      static_cast<unsigned long long>(what->distance),
                      what->past ? "past its end" : "before its beginning");
  log(LogLevel::Error, text);
  if (core_.shared.config.guard.report != nullptr) core_.shared.config.guard.report(*what);
}

std::vector<Page> DeviceGuards::abandon() {
  std::vector<Page> mapped;
  for (const Leaving& each : leaving_) {
    core_.shared.pages.clear(each.block.begin, each.block.end);
    mapped.insert(mapped.end(), each.item.pages.begin(), each.item.pages.end());
  }
  leaving_.clear();
  blocks_.clear();
  core_.stats.guard_bytes = 0;
  freed_with_pages.fetch_sub(std::exchange(freed_here_, 0U));
  spare_.clear();
  fills_under_way.fetch_sub(static_cast<std::uint32_t>(fills_.size()));
  fills_.clear();
  spare_fills_.clear();
  return mapped;
}

}  // namespace custash
