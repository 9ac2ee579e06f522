// SPDX-License-Identifier: MIT
// FreePlan: one free on its way. It looks the address up once. Each step goes on from there,
// and does nothing where it cannot free the block.
// Proved: tests/models/peers.pml.
#pragma once

#include "allocator/registry.hpp"

namespace custash {

class Allocator::FreePlan {
 public:
  [[gnu::always_inline]] FreePlan(State& state, Address address)
      : state_(state),
        address_(address),
        owner_(state.pages.find(address)),
        cache_(State::cache_of(owner_)) {}

  // The address is in this allocator's memory. If not, the driver frees it.
  [[nodiscard]] bool ours() const { return cache_ != nullptr; }

  // ---- A plain free. cache/context_cache.cpp describes its steps.
  bool free_quick();
  // In a process with one context: another one's work may use the block and does not count in
  // this one.
  bool free_unused();
  bool free_fenced();
  // Reports the driver's errors. Null: the driver's to free.
  std::optional<Status> free_slow();

  // ---- A free on a stream.
  bool free_quick_on(CUstream stream, NullStream null);
  // Reports the driver's errors. Null: the driver's to free.
  std::optional<Status> free_slow_on(CUstream stream, NullStream null);

 private:
  State& state_;
  const Address address_;
  const PageOwner owner_;
  ContextCache* const cache_;
};

}  // namespace custash
