// SPDX-License-Identifier: MIT
// The facade: routing of allocations, frees and questions. Submissions, captures and lifetimes
// are in submission.cpp.
// Proved: tests/models/peers.pml.
#include "allocator/allocator.hpp"

#include "allocator/registry.hpp"

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

std::optional<Status> Allocator::free(Address address) {
  if (try_free(address)) return Status();
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr) return std::nullopt;
  StreamBinding* binding = state_->binding(cache->context());
  ThreadCache* thread_cache = binding == nullptr || binding->cache != cache
                                  ? nullptr
                                  : ThreadBindings::mine().thread_cache(*binding);
  const Status waited = state_->wait_for_others(*cache);
  const Status freed = cache->free(address, nullptr, thread_cache);
  return freed.ok() ? waited : freed;
}

Status Allocator::allocate_on(
    CUcontext context, CUstream stream, NullStream null, Bytes bytes, Address* out) {
  StreamBinding* binding = state_->binding(stream, null);
  return binding == nullptr ? allocate(context, bytes, out)
                            : state_->allocate(*binding, bytes, out);
}

std::optional<Status> Allocator::free_on(Address address, CUstream stream, NullStream null) {
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr) return std::nullopt;
  StreamBinding* binding = state_->binding(stream, null);
  if (binding == nullptr) return cache->free(address, nullptr, nullptr);
  if (binding->cache == cache) {
    return cache->free(address, binding->lane, ThreadBindings::mine().thread_cache(*binding));
  }
  // A stream of another context: its order means nothing on this one's timeline.
  Timeline& theirs = binding->cache->timeline();
  HostUse until{&theirs, {}};
  if (theirs.record_free_abroad(*binding->lane, &until.event))
    return cache->freed_blocks().free_abroad(address, std::move(until));
  const Status waited = theirs.wait_all();
  return waited.ok() ? cache->free(address, nullptr, nullptr) : waited;
}

Status Allocator::record_stream(Address address, CUstream stream, NullStream null) {
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr || !state_->place(stream, null)) return CUDA_ERROR_INVALID_VALUE;
  return cache->record_stream(address);
}

Status Allocator::empty_cache(CUcontext context) {
  ContextCache* cache = state_->known(context);
  return cache == nullptr ? Status() : cache->trim();
}

void Allocator::empty_all_caches() {
  // Each error shows at its next call.
  visit_living(state_->all(), [](ContextCache& cache) { cache.trim().ignore(); });
}

bool Allocator::owns(Address address) const {
  return state_->owner(address) != nullptr;
}

Ownership Allocator::find(Address address, BlockInfo* info) {
  ContextCache* cache = state_->owner(address);
  if (cache == nullptr) return Ownership::Foreign;
  const BlockAnswer answer = cache->report().describe(address);
  if (!answer.live) return Ownership::Cached;
  if (info != nullptr) {
    *info = {answer.base, answer.requested, answer.usable, cache->context(), answer.buffer_id};
  }
  return Ownership::Live;
}

Bytes Allocator::reclaimable(CUcontext context) {
  Bytes sum = 0;
  ContextCache* cache = state_->known(context);
  if (cache == nullptr) return 0;
  visit_living(state_->on_device(cache->device()),
               [&](ContextCache& each) { sum += each.returnable(); });
  return sum;
}

DeviceStats Allocator::stats(int device) {
  DeviceStats sum;
  for (ContextCache* cache : state_->on_device(device))
    sum += cache->report().stats();
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
}

bool Allocator::validate() {
  bool valid = true;
  for (ContextCache* cache : state_->all())
    valid &= cache->report().validate();
  return valid;
}

void Allocator::after_fork_in_child() {
  state_->mutex.reset_after_fork();
  state_->tickets.reset_lock_after_fork();
  for (ContextCache* cache : state_->all())
    cache->after_fork_in_child();
}

}  // namespace custash
