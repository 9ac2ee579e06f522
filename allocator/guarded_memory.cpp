// SPDX-License-Identifier: MIT
#include "allocator/guarded_memory.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/registry.hpp"

namespace custash {

void GuardedMemory::look_at_all() {
  visit_living(state_.all(), [](ContextCache& cache) { cache.guards().look_at_all(); });
}

void GuardedMemory::give_back_freed() {
  if (Guards::freed() == 0) return;
  visit_living(state_.all(), [](ContextCache& cache) { cache.guards().collect_freed(); });
}

void GuardedMemory::order_fills(CUstream stream) {
  if (Guards::fills() == 0 || !holds(Rule::work_comes_after_fills)) return;
  visit_living(state_.all(), [&](ContextCache& cache) { cache.guards().order_fills(&stream); });
}

}  // namespace custash
