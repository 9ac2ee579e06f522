// SPDX-License-Identifier: MIT
// Pages move before pages are made: where to, in what order with work in flight, and what is
// left.
#include "allocator/heap/refaults.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

// Allocates pieces, frees every other one: free memory that no request for two pieces fits in.
struct Scattered {
  explicit Scattered(Bed& bed, Bytes piece, int count) : bed(bed) {
    const auto all = bed.blocks(count, piece);
    for (int i = 0; i < count; ++i) {
      if (i % 2 == 0) {
        kept.push_back(all[static_cast<std::size_t>(i)]);
      } else {
        gone.push_back(all[static_cast<std::size_t>(i)]);
      }
    }
  }

  void free_gone() { bed.free_all(gone); }

  Bed& bed;
  std::vector<Address> kept;
  std::vector<Address> gone;
};

constexpr Bytes kPiece = 32_MiB;
constexpr Bytes kMemory = 128_GiB;  // so much that handles are of kPiece

}  // namespace

TEST_CASE("free pages are moved together before new ones are made", "[moves]") {
  Bed bed({.device_memory = kMemory});
  Scattered scattered(bed, kPiece, 16);
  scattered.free_gone();
  const auto made = sim::count("cuMemCreate");
  const auto reserved = bed.reserved();
  const Address p = bed.malloc(8 * kPiece);
  REQUIRE(sim::count("cuMemCreate") == made);
  REQUIRE(bed.reserved() == reserved);
  REQUIRE(bed.stats().num_pages_moved == 7);  // to where one free piece lies already
  REQUIRE(sim::translate(p, 8 * kPiece).size() >= 8);
  bed.launch(nullptr, {.accesses = {{p, 8 * kPiece, true}}});
  REQUIRE(runs_without_faults());
  bed.free(p);
}

TEST_CASE("without a need pages stay where they are", "[moves]") {
  Bed bed({.device_memory = kMemory});
  Scattered scattered(bed, kPiece, 16);
  scattered.free_gone();
  for (int i = 0; i < 8; ++i)
    (void)bed.malloc(kPiece);
  REQUIRE(bed.stats().num_pages_moved == 0);
}

TEST_CASE("a moved page's old address is unmapped only when its last work is over", "[moves]") {
  Bed bed({.device_memory = kMemory});
  Scattered scattered(bed, kPiece, 16);
  const CUstream s = bed.stream();
  for (const Address p : scattered.gone)
    bed.launch(s, {.accesses = {{p, kPiece, true}}});
  scattered.free_gone();
  const Address p = bed.malloc(8 * kPiece);
  REQUIRE(bed.stats().num_pages_moved == 7);  // to where one free piece lies already
  REQUIRE(sim::count("cuMemUnmap") == 0);
  // Nothing more is made to wait: the next growth finds the work still going on.
  (void)bed.malloc(64_MiB);
  REQUIRE(sim::count("cuMemUnmap") == 0);
  bed.launch(s, {.accesses = {{p, 8 * kPiece, true}}});
  REQUIRE(runs_without_faults());
  (void)bed.malloc(64_MiB);
  REQUIRE(sim::count("cuMemUnmap") > 0);
}

TEST_CASE("a move that the driver refuses leaves the pages where they were", "[moves]") {
  for (const char* call : {"cuMemMap", "cuMemSetAccess"}) {
    Bed bed({.device_memory = kMemory});
    Scattered scattered(bed, kPiece, 16);
    scattered.free_gone();
    sim::fail_symbol(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
    (void)bed.malloc(8 * kPiece);  // the ladder tries again
    REQUIRE(bed.allocator->validate());
    bed.allocator->empty_all_caches();
    REQUIRE(bed.allocator->validate());
  }
}

TEST_CASE("memory stranded on idle and destroyed streams is used before pages are made",
          "[moves]") {
  Bed bed({.device_memory = kMemory});
  std::vector<CUstream> streams;
  std::vector<Address> blocks;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(bed.stream());
    blocks.push_back(bed.malloc_on(streams.back(), 2 * kPiece));
    bed.launch(streams.back(), {.accesses = {{blocks.back(), 2 * kPiece, true}}});
  }
  for (std::size_t i = 0; i < 4; ++i)
    bed.free_on(streams[i], blocks[i]);
  sim::run_all();
  bed.end_stream(streams[3]);
  const auto made = sim::count("cuMemCreate");
  const CUstream t = bed.stream();
  for (int i = 0; i < 4; ++i) {
    const Address p = bed.malloc_on(t, 2 * kPiece);
    bed.launch(t, {.accesses = {{p, 2 * kPiece, true}}});
    sim::run_all();  // a fence recorded since tells that a destroyed stream is idle
  }
  REQUIRE(sim::count("cuMemCreate") == made);
  REQUIRE(sim::faults().empty());
}

namespace {

std::uint64_t memory_calls() {
  return sim::count("cuMemCreate") + sim::count("cuMemMap") + sim::count("cuMemSetAccess") +
         sim::count("cuMemUnmap") + sim::count("cuMemRelease");
}

// In each round the large request takes a page that small ones need next.
void fight_for_a_page(Bed& bed) {
  const Address large = bed.malloc(27_MiB + 512_KiB);
  const Address small = bed.malloc(50_KiB);
  bed.free(large);
  bed.free(small);
  bed.free(bed.malloc(2_KiB));
}

// The driver's calls for memory in the last 40 of 80 runs.
template <typename Cycle>
std::uint64_t late_calls(Cycle cycle) {
  for (int i = 0; i < 40; ++i)
    cycle();
  const std::uint64_t before = memory_calls();
  for (int i = 0; i < 40; ++i)
    cycle();
  return memory_calls() - before;
}

}  // namespace

TEST_CASE("requests that are never alive together stop fighting for a page", "[moves]") {
  Bed bed;
  const auto once = [&](Bytes bytes) { bed.free(bed.malloc(bytes)); };
  REQUIRE(late_calls([&] {
            once(44_MiB);
            once(512_KiB);
          }) == 0);
  REQUIRE(bed.stats().num_pages_moved != 0);  // at first
  REQUIRE(bed.stats().reserved_bytes[0].peak <= static_cast<std::int64_t>(50_MiB));
}

TEST_CASE("after a trim moving is tried again", "[moves]") {
  Bed bed;
  const auto cycle = [&] { fight_for_a_page(bed); };
  REQUIRE(late_calls(cycle) == 0);
  const auto held = bed.reserved();
  REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  const auto moved = bed.stats().num_pages_moved;
  for (int i = 0; i < 3; ++i)
    cycle();
  REQUIRE(bed.stats().num_pages_moved >= moved + 3);
  REQUIRE(bed.reserved() < held);
}

TEST_CASE("moving for a size pays off after some moves, soon after each other", "[moves]") {
  constexpr Bytes kSize = 4_MiB;
  Refaults refaults;
  const auto gone = [](const Refaults::Served&) { return false; };
  const auto lives = [](const Refaults::Served&) { return true; };
  std::int64_t now = 0;
  const auto get = [&](std::size_t handles) {
    refaults.moved(kSize, handles);
    refaults.got(kSize, {.address = kSize, .buffer_id = 1, .when = ++now});
  };
  REQUIRE_FALSE(refaults.paid_off(kSize, now, false, gone));
  get(100);  // counts for four
  get(4);
  get(3);
  REQUIRE_FALSE(refaults.paid_off(kSize, now, false, gone));
  get(1);
  REQUIRE_FALSE(refaults.paid_off(kSize, now, false, lives));
  REQUIRE_FALSE(refaults.paid_off(2 * kSize, now, false, gone));
  for (int i = 0; i < 3; ++i)  // once for each block that is gone
    REQUIRE(refaults.paid_off(kSize, now, false, gone));
  REQUIRE_FALSE(refaults.paid_off(kSize, now, false, gone));
  get(4);
  REQUIRE_FALSE(refaults.paid_off(kSize, now + 1001, false, gone));  // too late to matter
  get(4);
  REQUIRE_FALSE(refaults.paid_off(kSize, now, false, gone));  // and it has begun anew
}

TEST_CASE("moving pays off at once in a program that has settled", "[moves]") {
  constexpr Bytes kSize = 4_MiB;
  Refaults refaults;
  const auto gone = [](const Refaults::Served&) { return false; };
  refaults.got(kSize, {.address = kSize, .buffer_id = 1, .when = 1});
  REQUIRE_FALSE(refaults.paid_off(kSize, 2, true, gone));  // nothing has moved
  refaults.moved(kSize, 1);
  refaults.got(kSize, {.address = kSize, .buffer_id = 2, .when = 2});
  refaults.got(kSize, {.address = kSize, .buffer_id = 3, .when = 3});
  REQUIRE_FALSE(refaults.paid_off(kSize, 4, false, gone));
  REQUIRE(refaults.paid_off(kSize, 4, true, gone));
}

TEST_CASE("sizes that are not asked for again are forgotten", "[moves]") {
  Refaults refaults;
  for (std::int64_t i = 1; i <= 10'000; ++i)
    refaults.got(static_cast<Bytes>(i) * 2_MiB, {.when = i});
  REQUIRE(refaults.sizes() <= 2000);
}

namespace {

// One block of 1 KiB stays, so that no page is wholly free. Two sizes take turns.
void turns(Bed& bed, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    bed.free(bed.malloc(700));
    bed.free(bed.malloc(300_KiB));
  }
}

}  // namespace

TEST_CASE("a program that has settled gets slabs only when they pay", "[moves]") {
  Bed bed;
  (void)bed.malloc(1_KiB);
  turns(bed, 1000);
  REQUIRE(bed.reserved() == 2_MiB);
  turns(bed, 4000);
  REQUIRE(bed.reserved() > 2_MiB);
}

TEST_CASE("memory that is made while less is in use than before unsettles nothing", "[moves]") {
  Bed bed;
  (void)bed.malloc(1_KiB);
  const CUstream stream = bed.stream();
  bed.free(bed.malloc(80_MiB));
  turns(bed, 200);
  const Address most = bed.malloc(72_MiB);
  const Address rest = bed.malloc(8_MiB);
  bed.launch(stream, {});
  bed.launch(nullptr, {.accesses = {{rest, 512, true}}});
  bed.free(rest);
  const auto made = sim::count("cuMemCreate");
  bed.free_on(stream, bed.malloc_on(stream, 4_MiB));  // what is free waits
  REQUIRE(sim::count("cuMemCreate") != made);
  bed.free(most);
  sim::run_all();
  const std::uint64_t before = memory_calls();
  turns(bed, 200);  // a slab at the 256th would take a page
  REQUIRE(memory_calls() == before);
}
