// SPDX-License-Identifier: MIT
// IdleMemory: returns device memory that has been free for Config::decay seconds to the driver.
// For a thread without a context of its own, the service's. Thread safe; the state is the
// allocator's.
#pragma once

#include "allocator/allocator.hpp"

#include <functional>

namespace custash {

class IdleMemory {
 public:
  explicit IdleMemory(Allocator& core) : core_(core), state_(core.state()) {}

  // Returns what is due, a few gigabytes at once, and the time when more is due.
  Nanoseconds give_back();

  // Runs `what` while no work of the process runs: new submissions wait for its end. For driver
  // calls that wait for the device. False: the process is at work or a capture is under way, so
  // `what` has not run.
  bool while_still(const std::function<void()>& what);

  // Bytes of the device that give_back() or a neighbour's request could return.
  [[nodiscard]] Bytes spare(int device);

 private:
  Allocator& core_;
  Allocator::State& state_;
};

}  // namespace custash
