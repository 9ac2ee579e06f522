// SPDX-License-Identifier: MIT
// GuardSlack: the bytes between a guarded block and the ends of its pages. They get a pattern
// when the block is handed out. After the free, custash copies the nearest of them to the host
// and looks whether anybody wrote there. It does so on a stream of its own and waits for
// nothing. Called without any lock held.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/units.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

namespace custash {

// A block that a caller has, and the pages around it.
struct GuardedBlock {
  Address begin = 0;  // of the pages
  Address end = 0;
  Address address = 0;
  Bytes requested = 0;
};

// The first byte of the slack that was written: so far before the block, or past its end.
struct Overwritten {
  bool past = false;
  Bytes distance = 0;  // 1: the next byte
};

class GuardSlack {
 public:
  // One look at a block's slack: copies under way to the host.
  struct Look {
    std::byte* copy = nullptr;
    CUevent over = nullptr;
  };

  GuardSlack(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}

  void fill(const GuardedBlock& block);
  // Starts a look; false: the driver refused.
  bool begin(const GuardedBlock& block, Look* out);
  [[nodiscard]] bool is_over(const Look& look) const;
  // Of a look that is over.
  [[nodiscard]] static std::optional<Overwritten> found(const GuardedBlock& block,
                                                        const Look& look);

 private:
  CUstream stream();

  const Driver& driver_;
  const CUcontext context_;
  // Order: released after it is made. A second one, by a thread that came at the same time,
  // ends with the context.
  std::atomic<CUstream> stream_{nullptr};
};

}  // namespace custash
