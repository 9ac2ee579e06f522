// SPDX-License-Identifier: MIT
// Programs that repeat themselves: they come to an end with new memory.
#include "allocator/heap/settling.hpp"

#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

Bytes held(Bed& bed) {
  return bed.reserved();
}

// Chunks of a file, each of another size, the next before the last has gone.
template <typename Between>
void uneven_chunks(Bed& bed, Between between) {
  Address last = 0;
  std::uint32_t random = 1;
  for (int i = 0; i < 100; ++i) {
    random = random * 1664525 + 1013904223;
    const Address next = bed.malloc(64_MiB + random % 192_MiB);
    if (last != 0) bed.free(last);
    last = next;
    between();
  }
  bed.free(last);
}

}  // namespace

TEST_CASE("what another stream freed is seen to pass beside frees in each round",
          "[settling]") {
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

TEST_CASE("a program has settled once no more is in use than before", "[settling]") {
  Settling settling;
  const auto make = [&](std::int64_t most, std::int64_t now) {
    settling.in_use(most, now);
    settling.memory_came();
  };
  make(100, 10);
  CHECK_FALSE(settling.settled(100));
  CHECK(settling.settled(110));
  make(100, 200);  // for the rounds of the program
  CHECK(settling.settled(201));
  settling.in_use(101, 300);  // no memory was needed for it
  CHECK(settling.settled(301));
  make(102, 400);
  CHECK_FALSE(settling.settled(401));
  CHECK(settling.settled(2000));
  settling.begin_anew(50, 2000);
  CHECK(settling.settled(2001));
  settling.in_use(-100, 2001);  // frees that were counted before their allocations
  CHECK(settling.most() == 50);
  make(102, 2002);
  CHECK_FALSE(settling.settled(2003));
}

TEST_CASE("before memory is made, blocks that wait outside limbo are asked for, too",
          "[settling]") {
  Bed bed({.advance = sim::Advance::Timed, .default_kernel = 50'000});
  const CUstream first = bed.stream();
  const CUstream second = bed.stream();
  const CUstream third = bed.stream();
  sim::OpId last = 0;
  const auto launch = [&](CUstream stream, Address p) {
    bed.launch(stream, {.accesses = {{p, 512, true}}});
    while (last != 0 && !sim::complete(last))  // the device is one kernel behind
      sim::advance_clock(50'000);
    last = sim::last_op(stream);
  };
  for (int i = 0; i < 100; ++i) {
    const Address a = bed.malloc(847'431);
    launch(nullptr, a);
    bed.free(a);
    const Address b = bed.malloc_on(third, 2'181'513);
    launch(third, b);
    bed.free_on(third, bed.malloc_on(third, 2'736'066));
    const Address c = bed.malloc_on(first, 2'181'513);
    const Address d = bed.malloc_on(third, 847'431);
    bed.free_on(third, b);
    const Address e = bed.malloc_on(second, 109'568);
    launch(second, e);
    bed.free_on(second, e);
    bed.free_on(third, d);
    launch(first, c);
    bed.free_on(first, c);
  }
  CHECK(held(bed) <= 24_MiB);
}

TEST_CASE("a trim ends what the program before it may hold", "[settling]") {
  Bed fresh;
  uneven_chunks(fresh, [] {});
  Bed bed;
  bed.free(bed.malloc(4096_MiB));
  REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  uneven_chunks(bed, [] {});
  CHECK(held(bed) <= held(fresh));
}

TEST_CASE("a reset of the statistics' peaks changes no memory", "[settling]") {
  Bed plain;
  uneven_chunks(plain, [] {});
  Bed bed;
  uneven_chunks(bed, [&] { bed.allocator->reset_peak_stats(0); });
  CHECK(held(bed) == held(plain));
  CHECK(bed.stats().num_device_alloc == plain.stats().num_device_alloc);
  CHECK(bed.stats().num_pages_moved == plain.stats().num_pages_moved);
}
