// SPDX-License-Identifier: MIT
// The core before those that are no stream, with the race detector as judge: a process or a
// card that is given a block, and a running kernel that is told of one.
#include "tests/sim/actors.hpp"

#include "allocator/peer_processes.hpp"
#include "tests/sim/race_detector.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kLarge = 8_MiB;

// A program whose blocks the detector hears of.
struct Watched : Bed {
  Watched() { sim::set_observer(&detector); }

  ~Watched() { sim::set_observer(nullptr); }

  Address have(Bytes bytes) {
    const Address p = malloc(bytes);
    detector.on_alloc(p, bytes, sim::this_thread());
    return p;
  }

  // A block that the kernel of its former owner still writes.
  Address owed(Bytes bytes) {
    const Address p = have(bytes);
    launch(late, {.accesses = {{p, bytes, true}}});
    detector.on_free(p, sim::this_thread());
    free(p);
    return have(bytes);
  }

  sim::RaceDetector detector;
  CUstream late = stream();
};

}  // namespace

TEST_CASE("a process or card that is given a block meets nobody", "[actors]") {
  for (const Bytes bytes : {Bytes{1000}, kLarge}) {
    for (const bool quiet : {true, false}) {  // false: the fault that the detector must see
      Watched bed;
      const Address q = bed.owed(bytes);
      if (quiet) REQUIRE(PeerProcesses(*bed.allocator).quiet(q).ok());
      sim::Actor card("card");
      card.told();
      card.opens(q, bytes);
      card.touches(true);
      INFO(bed.detector.text());
      CHECK(bed.detector.count(sim::Report::AllocatorFault) == (quiet ? 0 : 1));
    }
  }
}

TEST_CASE("a running kernel that is told of a block meets nobody", "[actors]") {
  // Hidden: the fault, a kernel that nobody knows to be fed by the host.
  for (const SubmissionKind view : {SubmissionKind::ReachesHost, SubmissionKind::Hidden}) {
    constexpr Bytes bytes = 96_MiB;  // more than is had beside what is in use
    Watched bed;
    const CUstream s = bed.stream();
    const Address p = bed.have(bytes);
    bed.launch(bed.late, {.accesses = {{p, bytes, true}}});
    bed.detector.on_free(p, sim::this_thread());
    bed.free(p);
    Submission submission(*bed.allocator, s, NullStream::Legacy, view);
    REQUIRE(sim::launch(s, {.needs_flag = 1}) == CUDA_SUCCESS);
    const sim::OpId server = sim::last_op(s);
    submission.done(CUDA_SUCCESS);
    const Address q = bed.have(bytes);
    CHECK((q == p || view == SubmissionKind::ReachesHost));
    sim::run_all();
    REQUIRE(sim::hand_to_running(server, {q, bytes, true}));
    INFO(bed.detector.text());
    CHECK(bed.detector.count(sim::Report::AllocatorFault) ==
          (view == SubmissionKind::ReachesHost ? 0 : 1));
    sim::set_flag(1);
  }
}
