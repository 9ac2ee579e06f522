// SPDX-License-Identifier: MIT
// The facade: routing of allocations, frees and questions. Submissions, captures and lifetimes
// are in submission.cpp.
// Proved: tests/models/peers.pml.
#include "allocator/allocator.hpp"

#include "allocator/free_plan.hpp"

#include <utility>

namespace custash {

Allocator::Allocator(const Driver& driver, const Config& config)
    : driver_(driver), config_(config), state_(new State(driver_, config_)) {
}

Status Allocator::allocate(CUcontext context, Bytes bytes, Address* out) {
  StreamBinding* binding = state_->binding(context);
  return binding == nullptr ? Status(CUDA_ERROR_INVALID_CONTEXT)
                            : state_->allocate(*binding, bytes, out);
}

Status Allocator::allocate_on(
    CUcontext context, CUstream stream, NullStream null, Bytes bytes, Address* out) {
  StreamBinding* binding = state_->binding(stream, null);
  return binding == nullptr ? allocate(context, bytes, out)
                            : state_->allocate(*binding, bytes, out);
}

bool Allocator::FreePlan::free_unused() {
  const StreamBinding* binding = state_.binding_to_free(cache_);
  return binding != nullptr && state_.contexts.load() == 1 &&
         cache_->fast_path().free_unused(*binding->thread_cache, owner_, address_);
}

bool Allocator::FreePlan::free_fenced() {
  const StreamBinding* binding = state_.binding_to_free(cache_);
  return binding != nullptr && (cache_->free_covered(owner_, address_, binding->thread_cache) ||
                                cache_->free_fenced(*binding->thread_cache, owner_, address_));
}

std::optional<Status> Allocator::FreePlan::free_slow() {
  if (!ours()) return std::nullopt;
  if (const StreamBinding* there = state_.binding_to_free(cache_);
      there != nullptr && cache_->free_covered(owner_, address_, there->thread_cache))
    return Status();
  // One question is enough for the plain calls of a thread: with a context that ends, threads
  // forget all others.
  const StreamBinding* known = state_.known_binding(cache_->context());
  CUcontext its = nullptr;
  if ((known == nullptr || known->thread_cache == nullptr) &&
      state_.driver.stream_get_ctx(CU_STREAM_LEGACY, &its) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  StreamBinding* binding = state_.binding(cache_->context());
  ThreadCache* thread_cache = binding == nullptr || binding->cache != cache_
                                  ? nullptr
                                  : ThreadBindings::mine().thread_cache(*binding);
  const Status waited = state_.wait_for_others(*cache_);
  if (is_refusal(waited)) return waited;
  const Status freed = cache_->free_slow(owner_, address_, nullptr, thread_cache);
  return freed.ok() ? waited : freed;
}

std::optional<Status> Allocator::FreePlan::free_slow_on(CUstream stream, NullStream null) {
  if (!ours()) return std::nullopt;
  const bool is_default = is_default_stream(stream);
  CUcontext its = nullptr;  // a default stream is one of the current context
  if (is_default) (void)state_.driver.ctx_get_current(&its);
  StreamBinding* binding = state_.known_binding(its, stream, null);
  if (binding == nullptr) {
    // The thread does not know the stream. The legacy stream shows whether the context lives.
    const CUresult told =
        state_.driver.stream_get_ctx(is_default ? CU_STREAM_LEGACY : stream, &its);
    if (told == CUDA_ERROR_INVALID_HANDLE || told == CUDA_ERROR_INVALID_CONTEXT ||
        told == CUDA_ERROR_CONTEXT_IS_DESTROYED)
      return told;
    binding = state_.binding(stream, null);
  }
  if (binding == nullptr) return cache_->free_slow(owner_, address_, nullptr, nullptr);
  if (binding->cache == cache_) {
    return cache_->free_slow(
        owner_, address_, binding->stream_state, ThreadBindings::mine().thread_cache(*binding));
  }
  // A stream of another context: its order means nothing on this one's timeline.
  Timeline& theirs = binding->cache->timeline();
  HostUse until{&theirs, {}};
  if (theirs.events().record_free_abroad(*binding->stream_state, &until.event))
    return cache_->freed_blocks().free_abroad(owner_, address_, std::move(until));
  const Status waited = theirs.fences().wait_all();
  return waited.ok() ? cache_->free_slow(owner_, address_, nullptr, nullptr) : waited;
}

Status Allocator::record_stream(Address address, CUstream stream, NullStream null) {
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr || !state_->place(stream, null)) return CUDA_ERROR_INVALID_VALUE;
  return cache->record_stream(address);
}

void Allocator::empty_all_caches() {
  // Each error shows at its next call.
  visit_living(state_->all(), [](ContextCache& cache) { cache.trim().ignore(); });
}

Status Allocator::trim(int device, Bytes bytes) {
  Status result;
  visit_living(state_->on_device(device), [&](ContextCache& cache) {
    const Bytes before = state_->limits.budget(device).held();
    if (const Status trimmed = cache.trim({.bytes = bytes, .plain = PlainTrim::Now});
        !trimmed.ok())
      result = trimmed;
    const Bytes after = state_->limits.budget(device).held();
    bytes -= std::min(bytes, before - std::min(before, after));
  });
  return result;
}

Status Allocator::trim_stream(CUstream stream, NullStream null) {
  const StreamPlace place = state_->place(stream, null);
  return place ? place.cache->trim({.plain = PlainTrim::Now}, *place.stream_state)
               : CUDA_ERROR_INVALID_VALUE;
}

Status Allocator::trim_idle(int device) {
  Status result;
  visit_living(state_->on_device(device), [&](ContextCache& cache) {
    if (const Status trimmed = cache.reclaim().trim_idle(); !trimmed.ok()) result = trimmed;
  });
  return result;
}

bool Allocator::context_broken(CUcontext context) {
  ContextCache* cache = state_->cache(context);
  return cache == nullptr || cache->timeline().events().broken();
}

void Allocator::look_for_faults() {
  visit_living(state_->all(),
               [](ContextCache& cache) { cache.timeline().events().look_for_fault(); });
}

bool Allocator::owns(Address address) const {
  return state_->owner(address) != nullptr;
}

Ownership Allocator::find(Address address, BlockInfo* info) {
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr) return Ownership::Foreign;
  BlockInfo unasked;
  return cache->report().describe(address, info == nullptr ? &unasked : info)
             ? Ownership::Live
             : Ownership::Cached;
}

Bytes Allocator::reclaimable(int device) {
  Bytes sum = 0;
  visit_living(state_->on_device(device),
               [&](ContextCache& each) { sum += each.reclaim().returnable(); });
  return sum;
}

DeviceStats Allocator::stats(int device) {
  DeviceStats sum;
  for (ContextCache* cache : state_->on_device(device))
    sum += cache->report().stats();
  Lock lock(state_->mutex);
  sum.add_ended(state_->ended[device]);
  return sum;
}

Inventory Allocator::inventory(int device) {
  Inventory all;
  for (ContextCache* cache : state_->on_device(device))
    cache->report().take_inventory(&all);
  return all;
}

void Allocator::reset_peak_stats(int device) {
  for (ContextCache* cache : state_->on_device(device))
    cache->report().reset_peaks();
  Lock lock(state_->mutex);
  state_->ended[device].reset_peaks();
}

void Allocator::visit_samplers(void (*visit)(Sampler& sampler, const void* data),
                               const void* data) {
  visit_living(state_->all(), [&](ContextCache& cache) {
    if (cache.sampler() != nullptr) visit(*cache.sampler(), data);
  });
}

MemoryLimits& Allocator::limits() {
  return state_->limits;
}

SleepGate& Allocator::sleep_gate() {
  return state_->sleep_gate;
}

void Allocator::after_fork_in_child() {
  state_->mutex.reset_after_fork();
  state_->limits.reset_lock_after_fork();
  state_->accounts.reset_after_fork();
  state_->captures.reset_after_fork();
  state_->tickets.reset_lock_after_fork();
  for (ContextCache* cache : state_->all())
    cache->after_fork_in_child();
}

}  // namespace custash
