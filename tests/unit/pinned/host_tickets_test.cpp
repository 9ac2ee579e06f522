// SPDX-License-Identifier: MIT
// When what was submitted before a ticket is over, in one context and in several.
#include "allocator/order/host_tickets.hpp"

#include "allocator/work_in_flight.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

struct Tickets : Bed {
  using Bed::Bed;

  std::uint64_t take() {
    std::uint64_t ticket = 0;
    CHECK(WorkInFlight(*allocator).take_ticket(sim.context(), &ticket).ok());
    return ticket;
  }

  bool passed(std::uint64_t ticket) {
    WorkInFlight(*allocator).tickets().poll();
    return WorkInFlight(*allocator).tickets().passed() >= ticket;
  }
};

}  // namespace

TEST_CASE("an idle process has passed every ticket", "[host_tickets]") {
  Tickets bed;
  CHECK(bed.take() == 0);
  CHECK(WorkInFlight(*bed.allocator).idle());
  bed.launch(bed.stream());
  CHECK_FALSE(WorkInFlight(*bed.allocator).idle());
  const auto ticket = bed.take();
  CHECK(ticket != 0);
  CHECK_FALSE(bed.passed(ticket));
  sim::run_all();
  CHECK(WorkInFlight(*bed.allocator).tickets().passed() < ticket);  // nobody has asked
  CHECK(bed.passed(ticket));
  CHECK(WorkInFlight(*bed.allocator).idle());
  CHECK(bed.take() == 0);
}

TEST_CASE("one ticket for all frees between two submissions, and one fence", "[host_tickets]") {
  Tickets bed;
  const CUstream s = bed.stream();
  bed.launch(s);
  sim::clear_log();
  const auto first = bed.take();
  CHECK(bed.take() == first);
  CHECK(sim::count("cuCtxRecordEvent") == 1);
  bed.launch(s);
  CHECK(bed.take() > first);
}

TEST_CASE("tickets pass in order, each with its own work", "[host_tickets]") {
  Tickets bed;
  const auto [s, t] = bed.streams<2>();
  bed.launch(s);
  const auto first = bed.take();
  bed.launch(t);
  const auto second = bed.take();
  REQUIRE(second > first);
  sim::hold(t);
  sim::run_all();
  CHECK(bed.passed(first));
  CHECK_FALSE(bed.passed(second));
  let_go(t);
  CHECK(bed.passed(second));
}

TEST_CASE("a ticket holds back no stream of another device than the buffer's",
          "[host_tickets]") {
  constexpr Bytes kLarge = 96 << 20;
  Tickets bed;
  const auto [s, t] = bed.streams<2>();
  const Address before = bed.malloc(8 << 20);
  bed.launch(s, {.accesses = {{before, 8, true}}});
  bed.free(before);  // its fence is the oldest, which stays; the next one may be replaced
  const Address p = bed.malloc(kLarge);
  bed.launch(s, {.accesses = {{p, 8, true}}});
  bed.free(p);
  const Address q = bed.malloc(kLarge);  // in debt
  bed.launch(s, {.needs_flag = 1});
  use(primary_context(1));
  bed.launch(bed.stream());  // the context of device 1 is known
  CUcontext other = nullptr;
  REQUIRE(cuCtxGetCurrent(&other) == CUDA_SUCCESS);
  std::uint64_t ticket = 0;
  REQUIRE(WorkInFlight(*bed.allocator).take_ticket(other, &ticket).ok());
  CHECK_FALSE(bed.passed(ticket));
  use(bed.sim.context());
  bed.launch(t, {.accesses = {{q, 8, true}}, .sets_flag = 1});
  sim::run_all();
  CHECK_FALSE(sim::hung());
  CHECK(bed.passed(ticket));
}

TEST_CASE("a kernel's fault is told once a ticket is taken, and holds up nothing",
          "[host_tickets]") {
  Tickets bed;
  const CUstream s = bed.stream();
  bed.launch(s, {.accesses = {{8, 8, true}}});
  sim::run_all();
  std::uint64_t ticket = 0;
  CHECK(WorkInFlight(*bed.allocator).take_ticket(bed.sim.context(), &ticket).code() ==
        CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(ticket == 0);
  CHECK(bed.allocator->context_broken(bed.sim.context()));
  use(primary_context(1));
  bed.launch(bed.stream());
  WorkInFlight(*bed.allocator).take_ticket(bed.sim.context(), &ticket).ignore();
  CHECK_FALSE(bed.passed(ticket));
  sim::run_all();
  CHECK(bed.passed(ticket));
}

TEST_CASE("a fence that could not be recorded is made up for", "[host_tickets]") {
  Tickets bed;
  bed.launch(bed.stream());
  sim::fail_symbol("cuCtxRecordEvent", 1, CUDA_ERROR_UNKNOWN);
  const auto ticket = bed.take();
  CHECK(ticket != 0);
  CHECK_FALSE(bed.passed(ticket));
  sim::run_all();
  CHECK(bed.passed(ticket));
}

TEST_CASE("beside a capture tickets pass, and the capture stays valid", "[host_tickets]") {
  Tickets bed;
  const auto [s, captured] = bed.streams<2>();
  bed.launch(s);
  begin_capture(bed, captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  bed.launch(s);
  const auto ticket = bed.take();
  CHECK_FALSE(bed.passed(ticket));
  sim::run_all();
  CHECK(bed.passed(ticket));
  (void)end_capture(bed, captured);
}

TEST_CASE("where submissions may go unseen, nothing is idle", "[host_tickets]") {
  Config config = Bed::vmm();
  config.single_stream = false;
  Tickets bed({}, config);
  const CUstream s = bed.stream();
  bed.launch(s);
  sim::run_all();
  CHECK_FALSE(WorkInFlight(*bed.allocator).idle());
  REQUIRE(sim::launch(s, {}) == CUDA_SUCCESS);  // not seen
  const auto ticket = bed.take();
  CHECK(ticket != 0);
  CHECK_FALSE(bed.passed(ticket));
  sim::run_all();
  CHECK(bed.passed(ticket));
}
