// SPDX-License-Identifier: MIT
// What the runtime's fast path knows of pitched memory: the pitches that the driver has
// returned to the runtime. State: the element size that the runtime asks for.
#pragma once

#include "interpose/hooks/pitches.hpp"

namespace custash::pitched_memory {

// While it lives, this thread's cuMemAllocPitch is the runtime's.
class FromRuntime {
 public:
  FromRuntime() noexcept;
  ~FromRuntime();
  FromRuntime(const FromRuntime&) = delete;
  FromRuntime& operator=(const FromRuntime&) = delete;
};

// Empty where the driver must answer. Takes no lock.
std::optional<PitchAnswer> known_to_runtime(CUdevice device, Bytes width) noexcept;

}  // namespace custash::pitched_memory
