// SPDX-License-Identifier: MIT
// Who is no stream, in the race detector's eyes.
#include "tests/sim/actors.hpp"

#include "tests/unit/sim/judged.hpp"

using namespace custash;
using namespace custash::sim;

TEST_CASE("another process meets the former owner's kernel", "[sim-actors]") {
  Judged bench;
  Actor process("importer");
  bench.write(bench.a);
  bench.freed_and_had_again();
  SECTION("the allocator has not waited") {
    process.told();
    process.touches(bench.p, Judged::kBytes, true);
    CHECK(bench.only(Report::AllocatorFault));
  }
  SECTION("a wait after the message comes too late for it") {
    process.told();
    process.touches(bench.p, Judged::kBytes, true);
    CHECK(cuStreamSynchronize(bench.a) == CUDA_SUCCESS);
    CHECK(bench.only(Report::AllocatorFault));
  }
  SECTION("the host has waited") {
    CHECK(cuStreamSynchronize(bench.a) == CUDA_SUCCESS);
    process.told();
    process.touches(bench.p, Judged::kBytes, true);
    CHECK(bench.clean());
  }
}

TEST_CASE("what an actor has done is over when a thread has heard from it", "[sim-actors]") {
  Judged bench;
  Actor card("card");
  card.told();
  card.touches(bench.p, Judged::kBytes, true);
  SECTION("heard") {
    card.note_result();
    bench.write(bench.a);
    CHECK(bench.clean());
  }
  SECTION("not heard") {
    bench.write(bench.a);
    CHECK(bench.only(Report::Conflict));
  }
}

TEST_CASE("an actor that nobody told knows of no allocation", "[sim-actors]") {
  Judged bench;
  Actor card("card");
  card.touches(bench.p, Judged::kBytes, false);
  CHECK(bench.only(Report::BeforeAllocation));
}

TEST_CASE("a card keeps to the memory that it has registered", "[sim-actors]") {
  Judged bench;
  Actor card("card");
  card.told();
  card.opens(bench.p, Judged::kBytes);
  SECTION("it stays") {
    card.touches(true);
    CHECK(bench.clean());
    CHECK(faults().empty());
  }
  SECTION("it goes back to the driver") {
    CHECK(cuMemFree(bench.p) == CUDA_SUCCESS);
    card.touches(true);
    CHECK(faults().size() == 1);
    CHECK(bench.detector.count(Report::Fault) == 1);
  }
  SECTION("it has let go before") {
    CHECK(cuMemFree(bench.p) == CUDA_SUCCESS);
    card.closes();
    card.touches(true);
    CHECK(faults().empty());
  }
}

TEST_CASE("a running kernel takes an address from its mailbox", "[sim-actors]") {
  Judged bench;
  const OpId former = bench.write(bench.a);
  CHECK(launch(bench.b, {.needs_flag = 1}) == CUDA_SUCCESS);
  const OpId server = last_op(bench.b);
  bench.freed_and_had_again();
  const Access given{bench.p, Judged::kBytes, true};
  SECTION("of memory that the former owner's kernel still writes") {
    CHECK(hand_to_running(server, given));
    CHECK(bench.only(Report::AllocatorFault));
  }
  SECTION("after the host has waited for that kernel") {
    CHECK(cuStreamSynchronize(bench.a) == CUDA_SUCCESS);
    CHECK(complete(former));
    CHECK(hand_to_running(server, given));
    // What follows it in its stream, submitted before or after, comes after.
    bench.write(bench.b);
    CHECK(bench.clean());
  }
  SECTION("what was submitted behind it before it was told") {
    CHECK(cuStreamSynchronize(bench.a) == CUDA_SUCCESS);
    bench.write(bench.b);
    CHECK(hand_to_running(server, given));
    CHECK(bench.clean());
  }
  SECTION("when it is over") {
    set_flag(1);
    CHECK(cuStreamSynchronize(bench.b) == CUDA_SUCCESS);
    CHECK_FALSE(hand_to_running(server, given));
  }
  SECTION("memory that is not there") {
    CHECK(cuStreamSynchronize(bench.a) == CUDA_SUCCESS);
    CUdeviceptr nothing = 0;
    CHECK(cuMemAddressReserve(&nothing, 2 << 20, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(hand_to_running(server, {nothing, 512, true}));
    CHECK(faults().size() == 1);
  }
}
