// SPDX-License-Identifier: MIT
// GuardSlack: the bytes between a guarded block and the ends of its pages. They get a pattern
// when the block is handed out, as far as GuardChoice::slack says. After the free, custash
// copies them to the host and looks whether anybody wrote there. It works on a stream of its
// own and waits for nothing. Called without any lock held.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/guard_choice.hpp"
#include "allocator/base/units.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace custash {

inline constexpr unsigned char kSlackPattern = 0xa7;
inline constexpr unsigned char kFillPattern = 0xff;  // as floating-point numbers: NaN

// The nearest byte that was written past the end of a block, else before its beginning.
std::optional<SlackWrite> find_write(const SlackWrite& block,
                                     std::span<const std::byte> before,
                                     std::span<const std::byte> past);

// `memory`: device or pinned. `what`: those that have no guards then. Logged of the first one.
void log_no_room(const char* memory, Bytes bytes, const char* what);

// A block that a caller has, and the pages around it.
struct GuardedBlock {
  Address begin = 0;  // of the pages
  Address end = 0;
  Address address = 0;
  Bytes requested = 0;
  bool filled = false;  // its slack has the pattern
};

class GuardSlack {
 public:
  // One look at a block's slack: copies under way to the host.
  struct Look {
    std::byte* copy = nullptr;
    Bytes room = 0;  // of the copy
    Bytes near = 0;  // so far on each side it looks
    CUevent over = nullptr;
  };

  GuardSlack(const Driver& driver, CUcontext context, Bytes near);

  // False: the driver refused, so the slack says nothing.
  bool fill(const GuardedBlock& block);
  // Fills the block itself, so that reads of uninitialised memory show: floating-point numbers
  // are NaN. The event is recorded after it, and made where it is null. False: nothing is
  // filled.
  bool fill_block(const GuardedBlock& block, CUevent* over);
  // The room that a look at the block wants; whether a look without any may get so much. Else
  // it looks at 4 KiB a side.
  [[nodiscard]] Bytes room_for(const GuardedBlock& block) const;

  [[nodiscard]] bool may_have(Bytes room) const {
    return room <= kSmallRoom || (many_.load() + 1) * most_room_ <= kMostCopies;
  }

  // Starts a look; false: the driver refused.
  bool begin(const GuardedBlock& block, Look* out);
  // CUDA_ERROR_NOT_READY: not over. Any other error: it has seen nothing.
  [[nodiscard]] CUresult state_of(const Look& look) const;
  // Of a look that is over.
  [[nodiscard]] static std::optional<SlackWrite> found(const GuardedBlock& block,
                                                       const Look& look);

 private:
  static constexpr Bytes kLeastNear = 4_KiB;
  static constexpr Bytes kSmallRoom = 2 * kLeastNear;
  static constexpr Bytes kMostCopies = 64_MiB;  // in larger rooms, which stay

  CUstream stream();
  bool find_room(const GuardedBlock& block, Look* out);

  const Driver& driver_;
  const CUcontext context_;
  const Bytes near_;
  const Bytes most_room_;
  std::atomic<Bytes> many_{0};  // such rooms there are. Order: none. It bounds them.
  // Order: released after it is made. A second one, by a thread that came at the same time,
  // ends with the context.
  std::atomic<CUstream> stream_{nullptr};
};

}  // namespace custash
