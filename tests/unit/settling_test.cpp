// SPDX-License-Identifier: MIT
// Programs that repeat themselves: they come to an end with new memory.
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

Bytes held(Bed& bed) {
  return static_cast<Bytes>(bed.stats().reserved_bytes[0].current);
}

}  // namespace

TEST_CASE("what another stream freed is seen to pass beside frees in each round",
          "[unit][settling]") {
  Bed bed({.advance = sim::Advance::Timed, .default_kernel = 50'000});
  const CUstream stream = bed.stream();
  sim::OpId last = 0;
  for (int i = 0; i < 30; ++i) {
    const Address p = bed.malloc(10_MiB);
    bed.launch(nullptr, {.accesses = {{p, 512, true}}});
    while (last != 0 && !sim::complete(last))  // the device is one kernel behind
      sim::advance_clock(50'000);
    last = sim::last_op(nullptr);
    bed.free(p);
    bed.free_on(stream, bed.malloc_on(stream, 76_MiB));
    bed.free(bed.malloc(109_MiB));
  }
  CHECK(held(bed) <= 300_MiB);
}
