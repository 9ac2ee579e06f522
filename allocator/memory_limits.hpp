// SPDX-License-Identifier: MIT
// MemoryLimits: the most that custash may hold of each device, and who is called when memory
// has run out. Thread safe; no state of its own.
#pragma once

#include "allocator/allocator.hpp"

namespace custash {

class MemoryLimits {
 public:
  explicit MemoryLimits(Allocator& core);

  // The most that the device's contexts together may hold; all ones: no limit.
  void set(int device, Bytes bytes);
  [[nodiscard]] Bytes get(int device) const;
  // What could still be allocated under the limit if all free memory were released.
  Bytes room(int device);

  // Called when all else has failed, without a lock held: not 0 when it is worth another try.
  void add_oom_hook(OutOfMemoryHook hook, void* data);
  bool remove_oom_hook(OutOfMemoryHook hook, void* data);  // false: it was not there

 private:
  Allocator& core_;
  Allocator::State& state_;
};

}  // namespace custash
