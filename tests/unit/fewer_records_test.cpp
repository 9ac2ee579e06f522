// SPDX-License-Identifier: MIT
// Frees for which no event is recorded, and what must have one all the same.
#include "tests/unit/bed.hpp"

#include <atomic>
#include <thread>

using namespace custash;

namespace {

constexpr Bytes kBytes = 64_MiB;  // more than is had beside what is in use

// Work of another thread on the stream.
void launch_elsewhere(Bed& bed, CUstream stream) {
  on_other_thread(bed, [&] { bed.launch(stream); });
}

}  // namespace

TEST_CASE("the free of a block that nobody can have used records nothing", "[fewer_records]") {
  for (const Bytes bytes : {Bytes{512}, 8_MiB}) {
    Bed bed({}, {.backing = Backing::Vmm, .slabs_after = 0});
    const auto [s, t] = bed.streams<2>();
    bed.free(bed.malloc(bytes));
    for (int i = 0; i < 10; ++i) {
      bed.launch(s);
      bed.launch(t);
      const Address p = bed.malloc(bytes);
      bed.free(p);
      REQUIRE(bed.malloc(bytes) == p);
      bed.free(p);
    }
    CHECK(records() == 0);
    const Address p = bed.malloc(bytes);
    bed.launch(s, {.accesses = {{p, bytes, true}}});
    bed.free(p);
    CHECK(records() == 1);
  }
}

TEST_CASE("a block that nobody has used still waits for its owner before", "[fewer_records]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  bed.launch(t);
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  sim::hold(s);
  bed.free(p);
  const auto before = records();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(bed.malloc(kBytes) == p);  // in debt
    bed.free(p);
  }
  CHECK(records() == before);
  REQUIRE(bed.malloc(kBytes) == p);
  bed.launch(t, {.accesses = {{p, kBytes, true}}});
  check_runs_behind(s, sim::last_op(t));
}

TEST_CASE("a block that was used has a fence, whoever used it", "[fewer_records]") {
  for (const Bytes bytes : {Bytes{512}, kBytes}) {
    Bed bed({}, Bed::without_run_ahead());
    const auto [s, t] = bed.streams<2>();
    bed.launch(t);
    bed.free(bed.malloc(bytes));
    const Address p = bed.malloc(bytes);
    bed.launch(s, {.accesses = {{p, bytes, true}}});
    sim::hold(s);
    bed.free(p);
    const Address q = bed.malloc(bytes);
    const sim::OpId second = bed.launch(t, {.accesses = {{q, bytes, true}}});
    sim::run_all();
    CHECK((q != p || !sim::complete(second)));
    let_go(s);
    CHECK(sim::complete(second));
  }
}

// Such a kernel gets the block without a submission. With the other values of free: the free
// waits for that kernel.
TEST_CASE("with free:never an unused block's free has a fence", "[fewer_records]") {
  Bed bed({}, {.backing = Backing::Vmm, .free_mode = FreeMode::Never});
  const auto [s, t] = bed.streams<2>();
  bed.free(bed.malloc(8_MiB));
  bed.launch(t);
  bed.launch(s, {}, SubmissionKind::ReachesHost);
  const auto before = records();
  bed.free(bed.malloc(8_MiB));
  CHECK(records() == before + 1);
}

TEST_CASE("a free on a stream that has done nothing since needs no new event",
          "[fewer_records]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc_on(s, kBytes);
  const Address q = bed.malloc_on(s, 2 * kBytes);
  const Address r = bed.malloc_on(s, kBytes / 4);
  launch_elsewhere(bed, t);
  bed.launch(s, {.accesses = {{p, kBytes, true}, {q, 2 * kBytes, true}}});
  sim::hold(s);
  bed.free_on(s, p);
  CHECK(records() == 1);
  launch_elsewhere(bed, t);
  bed.free_on(s, q);
  CHECK(records() == 1);
  // Another stream waits for the event that stands for both.
  const Address taken = bed.malloc_on(t, 2 * kBytes);  // of both
  REQUIRE((taken + 2 * kBytes > q && taken < q + 2 * kBytes));
  const sim::OpId second = bed.launch(t, {.accesses = {{taken, 2 * kBytes, true}}});
  sim::run_all();
  CHECK_FALSE(sim::complete(second));
  sim::release(s);
  // Its own work ends that.
  bed.launch(s, {.accesses = {{r, kBytes / 4, true}}});
  launch_elsewhere(bed, t);
  const auto before = records();
  bed.free_on(s, r);
  CHECK(records() == before + 1);
}

TEST_CASE("a free on a stream comes after what was submitted there since the last free",
          "[fewer_records]") {
  // On the stream itself, or on the legacy stream, which a blocking stream comes after.
  for (const bool legacy : {false, true}) {
    Bed bed({}, Bed::without_run_ahead());
    const CUstream s = bed.stream(CU_STREAM_DEFAULT);
    const CUstream t = bed.stream();
    const Address p = bed.malloc_on(s, kBytes);
    const Address q = bed.malloc_on(s, 2 * kBytes);
    launch_elsewhere(bed, t);
    bed.launch(s, {.accesses = {{p, kBytes, true}, {q, 2 * kBytes, true}}});
    bed.free_on(s, p);
    const CUstream works = legacy ? CU_STREAM_LEGACY : s;
    bed.launch(works, {.accesses = {{q, 2 * kBytes, true}}});
    sim::hold(works);
    launch_elsewhere(bed, t);
    bed.free_on(s, q);
    const Address taken = bed.malloc_on(t, 2 * kBytes);
    REQUIRE((taken + 2 * kBytes > q && taken < q + 2 * kBytes));
    bed.launch(t, {.accesses = {{taken, 2 * kBytes, true}}});
    check_runs_behind(works, sim::last_op(t));
  }
}

namespace {

thread_local bool stays_in_driver = false;
std::atomic<bool> in_driver{false};
std::atomic<bool> go_on{false};

void stay_in_driver() {
  if (!stays_in_driver) return;
  in_driver = true;
  in_driver.notify_all();
  go_on.wait(false);
}

}  // namespace

TEST_CASE("a free does not wait long for another thread that records", "[fewer_records]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(8_MiB);
  const Address q = bed.malloc(4_MiB);
  bed.launch(s, {.accesses = {{p, 8_MiB, true}, {q, 4_MiB, true}}});
  in_driver = go_on = false;
  sim::set_entry_check(stay_in_driver);
  std::thread other([&] {
    cuCtxSetCurrent(bed.sim.context());
    bed.malloc(512);  // else its first free asks the driver about the context
    stays_in_driver = true;
    bed.allocator->free(p);
  });
  in_driver.wait(false);
  bed.free(q);  // returns
  CHECK(records() == 1);
  go_on = true;
  go_on.notify_all();
  other.join();
  CHECK(records() == 2);
}
