// SPDX-License-Identifier: MIT
// Pitches: the driver's answers for pitched memory, one for each width.
// A pitch is never computed here. State: a table that only grows, read and filled without a
// lock. When it is full, further widths stay the driver's.
#pragma once

#include "allocator/base/units.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuda.h>

namespace custash {

// What a pitch may depend on.
struct PitchQuestion {
  CUdevice device = 0;
  unsigned element = 0;  // bytes of the widest access
  Bytes width = 0;
};

// How the driver lays out rows of that width.
struct PitchAnswer {
  Bytes pitch = 0;
  bool last_row_whole = true;  // the allocation ends with a whole pitch, or with the width

  // The size of an allocation of this many rows; 0 where no number can say it.
  [[nodiscard]] Bytes bytes(Bytes width, Bytes height) const;
  // What the driver's answer to one allocation shows. Empty where `bytes` fits neither layout.
  static std::optional<PitchAnswer> from(Bytes width, Bytes height, Bytes pitch, Bytes bytes);
};

class Pitches {
 public:
  [[nodiscard]] std::optional<PitchAnswer> find(const PitchQuestion& question) const noexcept;
  void add(const PitchQuestion& question, const PitchAnswer& answer) noexcept;

 private:
  static constexpr std::size_t kSlots = 1024;
  static constexpr std::size_t kTries = 16;

  struct Slot {
    std::atomic<std::uint64_t> key{0};     // 0: empty
    std::atomic<std::uint64_t> answer{0};  // 0: not written yet
  };

  std::array<Slot, kSlots> slots_{};
};

}  // namespace custash

// ---- What the runtime's fast path knows of pitched memory: pitched_memory.cpp.
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
