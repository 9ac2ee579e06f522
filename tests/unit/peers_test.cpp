// SPDX-License-Identifier: MIT
// Memory that the kernels of another device reach: what is owed before they use it, and how
// much is held.
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 64_MiB;

// A second context, on device 1, whose memory the first one's kernels reach once open() is
// called.
struct Peers : Bed {
  explicit Peers(const Config& config = vmm()) : Bed({}, config) {
    here = stream();
    theirs = make_context(1);
    there = stream();
  }

  void open() {
    use(sim.context());
    enable_peer(sim.context(), theirs);
  }

  Address alloc_there() {
    use(theirs);
    return malloc_in(theirs, kBytes);
  }

  void launch_there(const sim::Kernel& kernel) {
    use(theirs);
    launch(there, kernel);
  }

  void launch_here(const sim::Kernel& kernel) {
    use(sim.context());
    launch(here, kernel);
  }

  Address owed_block() {
    use(theirs);
    return Bed::owed_block(there, kBytes, theirs);
  }

  CUcontext theirs = nullptr;
  CUstream here = nullptr, there = nullptr;
};

}  // namespace

TEST_CASE("a peer's kernel comes after the former owner's, whenever access was enabled",
          "[peers]") {
  for (const bool before : {true, false}) {
    Peers bed;
    if (before) bed.open();
    const Address p = bed.owed_block();
    if (!before) bed.open();
    bed.launch_here({.accesses = {{p, kBytes, true}}});
    const auto second = sim::last_op(bed.here);
    const auto waits = sim::count("cuStreamWaitEvent");
    CHECK(waits == 1);
    bed.launch_here({.accesses = {{p, kBytes, true}}});
    CHECK(sim::count("cuStreamWaitEvent") == waits);  // once for each stream
    sim::run_all();
    CHECK_FALSE(sim::complete(second));
    use(bed.theirs);
    let_go(bed.there);
    CHECK(sim::complete(second));
    CHECK(sim::faults().empty());
  }
}

TEST_CASE("where submissions go unseen enabling access waits for what is owed", "[peers]") {
  Peers bed({.backing = Backing::Vmm, .single_stream = false});
  const Address p = bed.alloc_there();
  bed.launch_there({.accesses = {{p, kBytes, true}}});
  const auto late = sim::last_op(bed.there);
  bed.free(p);
  REQUIRE(bed.alloc_there() == p);
  REQUIRE_FALSE(sim::complete(late));
  bed.open();
  CHECK(sim::complete(late));
}

TEST_CASE("with peers no more memory is held than without", "[peers]") {
  for (const bool seen : {true, false}) {
    Peers bed({.backing = Backing::Vmm, .single_stream = seen});
    bed.open();
    for (int i = 0; i < 30; ++i) {
      const Address p = bed.alloc_there();
      bed.launch_there({.accesses = {{p, kBytes, true}}});
      bed.free(p);
    }
    CHECK(bed.allocator->stats(1).reserved_bytes[0].peak <=
          static_cast<std::int64_t>(3 * kBytes));
    CHECK(runs_without_faults());
  }
}

TEST_CASE("pages stay with those who may still need them when a peer's access ends",
          "[peers]") {
  Peers bed;
  bed.open();
  const Address p = bed.alloc_there();
  const CUcontext third = make_context(0);
  bed.enable_peer(third, bed.theirs);
  use(bed.sim.context());
  REQUIRE(cuCtxDisablePeerAccess(bed.theirs) == CUDA_SUCCESS);
  use(third);
  const CUstream stream = bed.stream();
  bed.launch(stream, {.accesses = {{p, kBytes, true}}});
  CHECK(runs_without_faults());
}

TEST_CASE("a free waits for another context's copy of the block and for no other", "[peers]") {
  for (const Bytes bytes : {Bytes{1000}, Bytes{4_MiB}}) {
    Bed bed({}, {.backing = Backing::Driver});
    const CUstream s = bed.stream();
    const Address a = bed.malloc(bytes);
    const CUcontext other = make_context(1);
    const Address b = bed.malloc_in(other, bytes);
    const Address c = bed.malloc_in(other, bytes);
    use(bed.sim.context());
    const auto copy = [&] {
      Submission submission(
          *bed.allocator, s, NullStream::Legacy, SubmissionKind::Hidden, a, b);
      submission.done(sim::launch(s, {.accesses = {{a, bytes, true}}}));
      return sim::last_op(s);
    };
    const sim::OpId first = copy();
    REQUIRE(bed.allocator->free(c)->ok());
    CHECK_FALSE(sim::complete(first));
    REQUIRE(bed.allocator->free(b)->ok());
    CHECK(sim::complete(first));
  }
}
