// SPDX-License-Identifier: MIT
// GuardedMemory: the guarded blocks and buffers of all contexts. Thread safe; no state of its
// own.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/config.hpp"

namespace custash {

class GuardedMemory {
 public:
  explicit GuardedMemory(Allocator& core) : core_(core) {}

  // Lets guards serve the allocations that the choice names, if it names any.
  static void serve(GuardChoice* choice);

  // Looks for bytes written around all of them, those in use too: for the end of the process.
  // Waits a second at most for each context.
  void check_all();

  // Before work is submitted and after a wait: gives the driver the pages of freed blocks whose
  // work is over, so that later work faults. Calls nothing where no such block has pages.
  void give_back_freed();

  // Before work is submitted to a stream of the current context: lets it come after the fills
  // of guarded blocks (+fill), on the device.
  void order_fills(CUstream stream);

 private:
  Allocator& core_;
};

}  // namespace custash
