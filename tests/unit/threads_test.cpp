// SPDX-License-Identifier: MIT
// Threads that come and go leave nothing behind.
#include "tests/unit/bed.hpp"

#include <malloc.h>

using namespace custash;

namespace {

// Uses its own stream for memory and work, as a program built for per-thread default streams
// does.
void live_and_end(Bed& bed) {
  on_other_thread(bed, [&] {
    Address p = 0;
    REQUIRE(
        bed.allocator->allocate_on(bed.sim.context(), nullptr, NullStream::PerThread, 4096, &p)
            .ok());
    bed.launch_per_thread();
    REQUIRE(bed.allocator->free_on(p, nullptr, NullStream::PerThread)->ok());
  });
  sim::run_all();
}

// Of the pools and stream states that custash keeps; the simulator keeps a little for each
// thread, too.
std::size_t in_use() {
  return mallinfo2().uordblks;
}

}  // namespace

TEST_CASE("a thread that ends gives its stream's state and pool back", "[threads]") {
  Bed bed({.log = false});
  for (int i = 0; i < 50; ++i)
    live_and_end(bed);
  const std::size_t before = in_use();
  constexpr int kThreads = 300;
  for (int i = 0; i < kThreads; ++i)
    live_and_end(bed);
  const std::size_t after = in_use();
  INFO("bytes a thread: " << (static_cast<double>(after) - static_cast<double>(before)) /
                                 kThreads);
  CHECK(after < before + std::size_t{kThreads} * 3000);
}
