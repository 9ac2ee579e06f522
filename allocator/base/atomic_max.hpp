// SPDX-License-Identifier: MIT
// Pure.
#pragma once

#include <atomic>

namespace custash {

// Raises `target` to `value`; never lowers it.
template <typename T>
void atomic_max(std::atomic<T>& target, T value) {
  T seen = target.load();
  while (seen < value && !target.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace custash
