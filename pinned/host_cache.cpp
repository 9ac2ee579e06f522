// SPDX-License-Identifier: MIT
// HostCache: allocations. Frees and queries are in host_cache_frees.cpp.
#include "pinned/host_cache.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/event.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_limits.hpp"
#include "pinned/host_pool.hpp"
#include "pinned/host_request.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace custash {
namespace {

constexpr unsigned kFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr Bytes kMostBytes = 1ULL << 46;

bool is_memory(Status status) {
  return status.code() == CUDA_ERROR_OUT_OF_MEMORY;
}

// Above this much memory in limbo, allocations wait for a buffer instead of pinning more.
constexpr Bytes kLimboAllowance = 256_MiB;

// Buffers of a pool of sizes Apart. More would leave the program too few of the system's
// mappings.
constexpr std::size_t kMostApart = 8192;

// Small requests share segments. Their size grows with the bytes held, to 1/256 of them.
Bytes small_segment(Bytes held) {
  return std::clamp<Bytes>(align_down(held / 256, 2_MiB), 2_MiB, 64_MiB);
}

}  // namespace

HostCache::HostCache(const Driver& driver, const Config& config, Allocator& allocator)
    : driver_(driver),
      config_(config),
      allocator_(allocator),
      memory_(driver, config),
      parts_{*this,
             allocator,
             driver,
             config,
             memory_,
             streams_,
             sampler_,
             mutex_,
             stats_,
             pools_},
      reclaim_(parts_) {
  if (config.guard.on_host != nullptr) sampler_ = config.guard.on_host(parts_);
}

HostCache::~HostCache() = default;

bool HostCache::serves(Bytes bytes, unsigned flags) const {
  return config_.pinned && bytes != 0 && bytes <= kMostBytes && (flags & ~kFlags) == 0;
}

HostPool& HostCache::pool_for(const HostRequest& request) {
  for (const auto& each : pools_) {
    if (each->serves(request)) return *each;
  }
  pools_.push_back(std::make_unique<HostPool>(request, stats_, blocks_, sampler_.get()));
  return *pools_.back();
}

void* HostCache::hand_out(Block* block, const HostRequest& request) {
  CUSTASH_ASSERT(block->state == BlockState::Used && block->size >= request.bytes);
  CUSTASH_ASSERT(HostPool::of(*block).serves(request) && !block->marks.any());
  CUSTASH_ASSERT(may_own(block->address));
  block->requested = request.bytes;
  block->buffer_id = next_buffer_id_++;
  stats_.requested_bytes.increase(static_cast<std::int64_t>(request.bytes));
  return reinterpret_cast<void*>(block->address);
}

void* HostCache::try_allocate(CUcontext context, Bytes bytes, unsigned flags) {
  if (sampler_ != nullptr || allocator_.context_broken(context)) return nullptr;
  const HostRequest request(context, bytes, flags);
  Lock lock(mutex_);
  Block* block =
      pool_for(request).take_recent(request.size, WorkInFlight(allocator_).tickets().passed());
  return block == nullptr ? nullptr : hand_out(block, request);
}

void* HostCache::search(const HostRequest& request) {
  const Nanoseconds now = driver_.now();
  Lock lock(mutex_);
  HostPool& pool = pool_for(request);
  const std::uint64_t passed = WorkInFlight(allocator_).tickets().passed();
  Block* block = pool.take_recent(request.size, passed);
  if (block == nullptr) block = pool.take_merged(request.size, passed, now);
  return block == nullptr ? nullptr : hand_out(block, request);
}

Status HostCache::allocate(CUcontext context, Bytes bytes, unsigned flags, void** out) {
  *out = nullptr;
  // After a kernel's fault every call returns the error.
  if (allocator_.context_broken(context)) return driver_.mem_host_alloc(out, bytes, flags);
  if (sampler_ != nullptr) *out = sampler_->allocate({context, bytes, flags, true});
  if (*out != nullptr) return {};
  const HostRequest request(context, bytes, flags);
  *out = search(request);
  if (*out != nullptr) return {};
  poll();
  reclaim_.decay();
  *out = search(request);
  if (*out == nullptr) *out = wait_and_search(request);
  if (*out != nullptr) return {};
  Status status = grow(request, out);
  // The last rung: wait for limbo. Without custash the program has waited for it at its frees.
  if (is_memory(status) && wait_for_limbo(nullptr)) {
    *out = search(request);
    status = *out != nullptr ? Status() : grow(request, out);
  }
  if (is_memory(status)) log_refused(bytes);
  return status;
}

// Waits for the buffers in limbo of one context, or of all (null). False: there are none.
bool HostCache::wait_for_limbo(CUcontext only) {
  std::uint64_t ticket = 0;
  bool any = false;
  bool named = false;
  {
    Lock lock(mutex_);
    for (const auto& each : pools_) {
      if (only != nullptr && each->context != only) continue;
      each->each_in_limbo([&](const Block& block) {
        const Position plain = block.reuse_after.plain;
        any = true;
        named = named || plain == Position::end();
        if (plain != Position::end()) ticket = std::max(ticket, plain.count);
      });
    }
  }
  if (!any) return false;
  // Buffers behind named streams have no ticket: then this waits for everything. A broken
  // context runs nothing, and unfinished buffers stay in limbo.
  WorkInFlight work(allocator_);
  if (named) work.take_ticket(nullptr, &ticket).ignore();
  work.tickets().wait(ticket).ignore();
  poll();
  return true;
}

// Pinned memory is scarce. If much of it is in limbo, this waits for a buffer large enough.
// Without custash the program has waited for it at its free.
void* HostCache::wait_and_search(const HostRequest& request) {
  Position first = Position::end();
  {
    Lock lock(mutex_);
    Bytes waiting = request.size;
    pool_for(request).each_in_limbo([&](const Block& block) {
      waiting += block.size;
      if (block.size >= request.size) first = std::min(first, block.reuse_after.plain);
    });
    const auto in_use =
        static_cast<Bytes>(std::max<std::int64_t>(stats_.in_use_bytes.current, 0));
    const Bytes allowed = kLimboAllowance + in_use / 100 * config_.run_ahead_percent;
    if (waiting <= allowed || first == Position::end()) return nullptr;
    ++stats_.num_waits;
  }
  return WorkInFlight(allocator_).tickets().wait(first.count).ok() ? search(request) : nullptr;
}

bool HostCache::over_limit(Bytes bytes) const {
  return config_.pinned_limit != 0 &&
         static_cast<Bytes>(stats_.allocated_bytes.current) + bytes > config_.pinned_limit;
}

Status HostCache::grow(const HostRequest& request, void** out) {
  const Bytes least = align_up(request.size, host_pages::page());
  Bytes size = least;
  if (request.sizes != HostSizes::Large) {
    Lock lock(mutex_);
    size = small_segment(static_cast<Bytes>(stats_.allocated_bytes.current));
    if (over_limit(size)) size = least;
  }
  HostMemoryRange range;
  const Nanoseconds begin = driver_.now();
  const Status status = obtain(request, size, &range);
  if (!status.ok()) return status;
  *out = add(request, range, begin);
  return {};
}

void* HostCache::add(const HostRequest& request,
                     const HostMemoryRange& range,
                     Nanoseconds begin) {
  const Nanoseconds elapsed = driver_.now() - begin;
  atomic_max(highest_, range.end());
  for (Address seen = lowest_.load(); range.base < seen;) {
    if (lowest_.compare_exchange_weak(seen, range.base)) break;
  }
  bool added = false;
  try {
    Lock lock(mutex_);
    HostPool& pool = pool_for(request);
    HostSegment& segment = pool.add(range);
    added = true;
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(static_cast<std::int64_t>(range.size));
    ++stats_.num_host_alloc;
    stats_.host_alloc_time.add(elapsed);
    const bool apart = request.sizes == HostSizes::Apart;
    if (apart) ++stats_.num_guarded;
    return hand_out(pool.take_first(segment, apart ? range.size : request.size), request);
  } catch (...) {  // the error is "no memory for bookkeeping"
    if (!added) memory_.release(request.context, range).ignore();
    throw;
  }
}

bool HostCache::obtain_apart(const HostRequest& request, bool at_end, HostMemoryRange* out) {
  {
    Lock lock(mutex_);
    if (over_limit(align_up(request.bytes, host_pages::page())) ||
        pool_for(request).segments().size() >= kMostApart)
      return false;
  }
  return memory_.obtain_guarded(request.context, request.bytes, request.flags, at_end, out);
}

Status HostCache::obtain(const HostRequest& request, Bytes size, HostMemoryRange* out) {
  const auto try_once = [&]() -> Status {
    {
      Lock lock(mutex_);
      if (over_limit(size)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return memory_.obtain(request.context, size, request.flags, out);
  };
  Status status = try_once();
  if (!is_memory(status)) return status;
  {
    Lock lock(mutex_);
    ++stats_.num_retries;
  }
  // The ladder: release free segments, those of buffers that have become safe too. Then release
  // device memory, since its page tables take host memory.
  if (reclaim_.relieve()) status = try_once();
  if (is_memory(status) && allocator_.relieve(request.context)) status = try_once();
  return status;
}

void HostCache::log_refused(Bytes bytes) {
  std::string why = describe_host_limits();
  {
    Lock lock(mutex_);
    ++stats_.num_ooms;
    if (config_.pinned_limit != 0)
      why += " pinned_limit=" + std::to_string(config_.pinned_limit);
    why += " held=" + std::to_string(stats_.allocated_bytes.current) +
           " in_use=" + std::to_string(stats_.in_use_bytes.current);
  }
  log(LogLevel::Warn, "event=pinned_refused bytes=" + std::to_string(bytes) + " " + why);
}

void HostCache::poll() {
  WorkInFlight(allocator_).tickets().poll();
  streams_.poll();
}

// Work of other contexts may still use this context's freed buffers. Without custash the
// program has waited for that work at the free.
void HostCache::context_destroyed(CUcontext context) {
  if (holds(Rule::a_context_ends_after_its_buffers_use)) wait_for_limbo(context);
  while (!reclaim_.forget_pools(context))
    std::this_thread::yield();  // a segment of it is being released
}

}  // namespace custash
