// SPDX-License-Identifier: MIT
// The facade's part of the fast path: finds the calling thread's thread cache. Proved:
// tests/models/peers.pml.
#include "allocator/cache/fast_path_inline.hpp"
#include "allocator/free_plan.hpp"
#include "allocator/heap/block_info.hpp"

namespace custash {

Address Allocator::try_allocate(CUcontext context, Bytes bytes) {
  const State& state = *state_;
  if (state.captures_open.load() != 0) return 0;
  const StreamBinding* binding = state.known_binding(context);
  if (binding == nullptr || binding->thread_cache == nullptr) return 0;
  const Address hit = binding->cache->fast_path().allocate(*binding->thread_cache, bytes);
  return hit != 0 ? hit : binding->cache->try_allocate(bytes, binding->thread_cache);
}

[[gnu::always_inline]] inline bool Allocator::FreePlan::free_quick() {
  const StreamBinding* binding = state_.binding_to_free(cache_);
  return binding != nullptr &&
         cache_->fast_path().free(*binding->thread_cache, owner_, address_);
}

// Each step after free_quick() works on a copy, so that the fast path keeps its plan in
// registers.
bool Allocator::try_free(Address address) {
  FreePlan plan(*state_, address);
  return plan.free_quick() || FreePlan(plan).free_unused() || FreePlan(plan).free_fenced();
}

std::optional<Status> Allocator::free(Address address) {
  FreePlan plan(*state_, address);
  if (plan.free_quick() || FreePlan(plan).free_unused()) return Status();
  return FreePlan(plan).free_slow();
}

Address Allocator::try_allocate_on(CUcontext context,
                                   CUstream stream,
                                   NullStream null,
                                   Bytes bytes) {
  const StreamBinding* binding = state_->known_binding(context, stream, null);
  return binding == nullptr || binding->thread_cache == nullptr ||
                 binding->cache->context() != context
             ? 0
             : binding->cache->fast_path().allocate(*binding->thread_cache, bytes);
}

[[gnu::always_inline]] inline bool Allocator::FreePlan::free_quick_on(CUstream stream,
                                                                      NullStream null) {
  // A default stream belongs to the current context.
  CUcontext context = nullptr;
  if (is_default_stream(stream) && state_.driver.ctx_get_current(&context) != CUDA_SUCCESS)
    return false;
  const StreamBinding* binding = state_.known_binding(context, stream, null);
  return binding != nullptr && binding->thread_cache != nullptr && binding->cache == cache_ &&
         cache_->fast_path().free(*binding->thread_cache, owner_, address_);
}

bool Allocator::try_free_on(Address address, CUstream stream, NullStream null) {
  FreePlan plan(*state_, address);
  return plan.free_quick_on(stream, null) ||
         FreePlan(plan).free_slow_on(stream, null).value_or(CUDA_ERROR_INVALID_VALUE).ok();
}

std::optional<Status> Allocator::free_on(Address address, CUstream stream, NullStream null) {
  FreePlan plan(*state_, address);
  if (plan.free_quick_on(stream, null)) return Status();
  return FreePlan(plan).free_slow_on(stream, null);
}

}  // namespace custash
