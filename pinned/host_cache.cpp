// SPDX-License-Identifier: MIT
// HostCache: allocations and frees. Releasing memory is in host_cache_trim.cpp.
#include "pinned/host_cache.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "pinned/host_limits.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace custash {
namespace {

constexpr unsigned kFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr Bytes kMostBytes = 1ULL << 46;
constexpr std::uint64_t kNever = ~0ULL;  // a ticket that never passes

bool is_memory(Status status) {
  return status.code() == CUDA_ERROR_OUT_OF_MEMORY;
}

// Above this much memory in limbo, allocations wait for a buffer instead of pinning more.
constexpr Bytes kLimboAllowance = 256_MiB;

// Small requests share segments. Their size grows with the bytes held, to 1/256 of them.
Bytes small_segment(Bytes held) {
  return std::clamp<Bytes>(align_down(held / 256, 2_MiB), 2_MiB, 64_MiB);
}

}  // namespace

bool HostCache::serves(Bytes bytes, unsigned flags) const {
  return config_.pinned && bytes != 0 && bytes <= kMostBytes && (flags & ~kFlags) == 0;
}

HostPool& HostCache::pool_for(const HostRequest& request) {
  for (const auto& each : pools_) {
    if (request.served_by(*each)) return *each;
  }
  pools_.push_back(
      std::make_unique<HostPool>(request.context, request.pool_flags, request.sizes, stats_));
  return *pools_.back();
}

void* HostCache::hand_out(HostBlock* block, const HostRequest& request) {
  block->requested = request.bytes;
  block->buffer_id = next_buffer_id_++;
  stats_.requested_bytes.increase(static_cast<std::int64_t>(request.bytes));
  return reinterpret_cast<void*>(block->base);
}

void* HostCache::try_allocate(CUcontext context, Bytes bytes, unsigned flags) {
  if (allocator_.context_broken(context)) return nullptr;
  const HostRequest request(context, bytes, flags);
  Lock lock(mutex_);
  HostBlock* block =
      pool_for(request).take_recent(request.size, allocator_.host_tickets_passed());
  return block == nullptr ? nullptr : hand_out(block, request);
}

void* HostCache::search(const HostRequest& request) {
  const Nanoseconds now = driver_.now();
  Lock lock(mutex_);
  HostPool& pool = pool_for(request);
  const std::uint64_t passed = allocator_.host_tickets_passed();
  HostBlock* block = pool.take_recent(request.size, passed);
  if (block == nullptr) block = pool.take_merged(request.size, passed, now);
  return block == nullptr ? nullptr : hand_out(block, request);
}

Status HostCache::allocate(CUcontext context, Bytes bytes, unsigned flags, void** out) {
  *out = nullptr;
  // After a kernel's fault every call returns the error.
  if (allocator_.context_broken(context)) return driver_.mem_host_alloc(out, bytes, flags);
  const HostRequest request(context, bytes, flags);
  *out = search(request);
  if (*out != nullptr) return {};
  poll();
  decay();
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
    const auto meant = [&](const HostPool& each) {
      return only == nullptr || each.context == only;
    };
    for (const auto& each : pools_) {
      if (meant(*each)) any |= each->any_in_limbo(&ticket);
    }
    named = std::any_of(behind_streams_.begin(), behind_streams_.end(), [&](const Uses& uses) {
      return meant(*uses.pool);
    });
  }
  if (!any) return false;
  // Buffers behind named streams have no ticket: then this waits for everything.
  if (named)
    allocator_.take_host_ticket(nullptr, &ticket).ignore();  // a broken context runs nothing
  allocator_.wait_host_ticket(ticket).ignore();              // unfinished buffers stay in limbo
  poll();
  return true;
}

// Pinned memory is scarce. Where much of it is in limbo, this waits for a buffer large enough.
// Without custash the program has waited for it at its free.
void* HostCache::wait_and_search(const HostRequest& request) {
  std::uint64_t ticket = 0;
  {
    Lock lock(mutex_);
    const HostPool& pool = pool_for(request);
    const auto in_use =
        static_cast<Bytes>(std::max<std::int64_t>(stats_.in_use_bytes.current, 0));
    const Bytes allowed = kLimboAllowance + in_use / 100 * config_.run_ahead_percent;
    const HostBlock* first = pool.limbo_bytes + request.size <= allowed
                                 ? nullptr
                                 : pool.first_in_limbo(request.size);
    if (first == nullptr || first->tracked) return nullptr;
    ticket = first->ticket;
    ++stats_.num_waits;
  }
  return allocator_.wait_host_ticket(ticket).ok() ? search(request) : nullptr;
}

bool HostCache::over_limit(Bytes bytes) {
  return config_.pinned_limit != 0 &&
         static_cast<Bytes>(stats_.allocated_bytes.current) + bytes > config_.pinned_limit;
}

Status HostCache::grow(const HostRequest& request, void** out) {
  const Bytes least = align_up(request.size, 4_KiB);
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
  const Nanoseconds elapsed = driver_.now() - begin;
  atomic_max(highest_, range.base + range.size);
  for (Address seen = lowest_.load(); range.base < seen;) {
    if (lowest_.compare_exchange_weak(seen, range.base)) break;
  }
  bool added = false;
  try {
    Lock lock(mutex_);
    HostPool& pool = pool_for(request);
    pool.add(range);
    added = true;
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(static_cast<std::int64_t>(range.size));
    ++stats_.num_host_alloc;
    stats_.host_alloc_time.add(elapsed);
    HostBlock* block =
        pool.take_merged(request.size, allocator_.host_tickets_passed(), begin + elapsed);
    *out = hand_out(block, request);  // at least the one just added fits
  } catch (...) {                     // the error is "no memory for bookkeeping"
    if (!added) memory_.release(request.context, range).ignore();
    throw;
  }
  return {};
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
  if (relieve()) status = try_once();
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

HostPool* HostCache::owner(Address start, HostBlock** block) {
  for (const auto& each : pools_) {
    *block = each->find(start);
    if (*block != nullptr)
      return (*block)->state == HostBlockState::Used ? each.get() : nullptr;
  }
  return nullptr;
}

// On success only the caller may touch the block. An error says why it cannot be freed.
std::optional<Status> HostCache::begin_free(void* buffer, Uses* out) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address)) return std::nullopt;
  {
    Lock lock(mutex_);
    out->pool = owner(address, &out->block);
    if (out->pool != nullptr) {
      out->block->state = HostBlockState::Busy;
      out->buffer_id = out->block->buffer_id;
      return Status();
    }
  }
  if (find(address, nullptr) == Ownership::Foreign) return std::nullopt;
  return CUDA_ERROR_INVALID_VALUE;
}

Status HostCache::finish_free(const Uses& leaving) {
  std::uint64_t ticket = 0;
  const Status stamped = allocator_.take_host_ticket(leaving.pool->context, &ticket);
  Lock lock(mutex_);
  if (std::exchange(leaving.block->tracked, false)) streams_.erase(leaving.block);
  leaving.pool->put_in_limbo(leaving.block,
                             holds(Rule::freed_buffers_wait_for_a_ticket) ? ticket : 0);
  return stamped;
}

std::optional<Status> HostCache::free(void* buffer) {
  Uses leaving;
  if (const auto begun = begin_free(buffer, &leaving); !begun || !begun->ok()) return begun;
  const Status waited = holds(Rule::frees_of_buffers_wait_for_results)
                            ? allocator_.wait_as_free_does(leaving.pool->context)
                            : Status();
  const Status freed = finish_free(leaving);
  decay();
  return freed.ok() ? waited : freed;
}

bool HostCache::try_free(void* buffer) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address)) return false;
  if (!allocator_.idle() && holds(Rule::quick_frees_of_buffers_are_idle)) return false;
  Lock lock(mutex_);
  HostBlock* block = nullptr;
  HostPool* pool = owner(address, &block);
  if (pool == nullptr || block->tracked) return false;
  if (!allocator_.free_would_not_wait(pool->context) &&
      holds(Rule::quick_frees_of_buffers_wait_for_results))
    return false;
  pool->put_in_limbo(block, 0);
  return true;
}

bool HostCache::try_free_in_flight(void* buffer) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address)) return false;
  Uses leaving;
  {
    Lock lock(mutex_);
    leaving.pool = owner(address, &leaving.block);
    if (leaving.pool == nullptr || leaving.block->tracked) return false;
    if (!allocator_.free_would_not_wait(leaving.pool->context) &&
        holds(Rule::quick_frees_of_buffers_wait_for_results))
      return false;
    leaving.block->state = HostBlockState::Busy;
  }
  std::uint64_t ticket = 0;
  const Status stamped = allocator_.take_host_ticket(leaving.pool->context, &ticket);
  Lock lock(mutex_);
  if (stamped.ok()) {
    leaving.pool->put_in_limbo(leaving.block, ticket);
  } else {
    leaving.block->state = HostBlockState::Used;  // the slow path reports it
  }
  return stamped.ok();
}

Status HostCache::record_stream(void* buffer, CUstream stream, NullStream null) {
  Lock lock(mutex_);
  HostBlock* block = nullptr;
  if (owner(reinterpret_cast<Address>(buffer), &block) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto& named = streams_[block];
  const StreamUse name(stream, null);
  if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
  block->tracked = true;
  return {};
}

std::optional<Status> HostCache::free_behind_streams(void* buffer) {
  Uses leaving;
  if (const auto begun = begin_free(buffer, &leaving); !begun || !begun->ok()) return begun;
  std::vector<StreamUse> named;
  {
    Lock lock(mutex_);
    if (const auto it = streams_.find(leaving.block); it != streams_.end()) named = it->second;
  }
  for (const auto& [stream, null] : named) {
    HostUse use = allocator_.record_host_use(stream, null);
    if (!use) return finish_free(leaving);  // no event: wait for everything
    leaving.streams.push_back(std::move(use));
  }
  if (named.empty()) return finish_free(leaving);
  Lock lock(mutex_);
  streams_.erase(leaving.block);
  leaving.pool->put_in_limbo(leaving.block, kNever);
  behind_streams_.push_back(std::move(leaving));
  return Status();
}

void HostCache::poll() {
  allocator_.poll_host_tickets();
  poll_streams();
}

// The events are queried without the lock. Meanwhile a context may end, and its buffers with
// it: so buffers are found again by their id.
void HostCache::poll_streams() {
  std::vector<Uses> asked;
  {
    Lock lock(mutex_);
    asked = behind_streams_;
  }
  if (asked.empty()) return;
  std::vector<std::uint64_t> safe;
  for (const Uses& uses : asked) {
    const auto over = [](const HostUse& use) { return Allocator::host_use_over(use); };
    const bool safe_now = holds(Rule::buffers_wait_for_all_named_streams)
                              ? std::all_of(uses.streams.begin(), uses.streams.end(), over)
                              : std::any_of(uses.streams.begin(), uses.streams.end(), over);
    if (safe_now) safe.push_back(uses.buffer_id);
  }
  Lock lock(mutex_);
  std::erase_if(behind_streams_, [&](const Uses& uses) {
    if (std::find(safe.begin(), safe.end(), uses.buffer_id) == safe.end()) return false;
    uses.block->tracked = false;
    uses.block->ticket = 0;
    return true;
  });
}

bool HostCache::inside(Address address) const {
  return address >= lowest_.load(std::memory_order_relaxed) &&
         address < highest_.load(std::memory_order_relaxed);
}

}  // namespace custash
