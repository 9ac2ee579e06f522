// SPDX-License-Identifier: MIT
// Two ways to measure wrongly what pinned memory gains, each done on purpose, beside the right
// one.
#pragma once

#include <string>

namespace custash::bandwidth {

struct Mistakes {
  struct Pair {
    double pageable_ms;
    double pinned_ms;

    double ratio() const { return pinned_ms > 0 ? pageable_ms / pinned_ms : 0; }
  };

  Pair first_transfer;  // the start of the context falls into the first timed transfer
  Pair handed_over;     // what was pinned arrives in another process in shared, pageable memory
  Pair right;           // in the process that copies, its context there, many times, by events
  bool arrived_pinned;  // the driver's answer about what was handed over
  bool simulated;
};

Mistakes make_mistakes(int device, unsigned repetitions);

std::string text_of(const Mistakes& mistakes);
std::string json_of(const Mistakes& mistakes);

}  // namespace custash::bandwidth
