// SPDX-License-Identifier: MIT
// Green contexts as the simulated driver has them: of the primary's memory, with fences that
// the primary's cover.
#include "tests/sim/green.hpp"

#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;
CUcontext primary = nullptr;
CUcontext green = nullptr;

struct Green : Bed {
  Green() {
    primary = sim.context();
    made = sim::make_green();
    REQUIRE(made);
    green = made.context;
    there = sim::green_stream(made);
    legacy_there = CU_STREAM_LEGACY;
    here = stream();
  }

  Address owed_block() {
    use(primary);
    return Bed::owed_block(here, kBytes);
  }

  // As the hook of cuGreenCtxDestroy does it.
  void end() {
    allocator->context_destroyed(green);
    REQUIRE(cuStreamDestroy(there) == CUDA_SUCCESS);
    REQUIRE(sim::destroy_green(made) == CUDA_SUCCESS);
    allocator->context_gone(green);
  }

  sim::GreenContext made;
  CUstream here = nullptr, there = nullptr, legacy_there = nullptr;
};

}  // namespace

TEST_CASE("a kernel on a green stream comes after the former owner's", "[green]") {
  for (const bool named : {true, false}) {
    Green bed;
    const Address p = bed.owed_block();
    use(green);
    const CUstream stream = named ? bed.there : bed.legacy_there;
    const sim::OpId second = bed.launch(stream, {.accesses = {{p, kBytes, true}}});
    sim::run_all();
    CHECK_FALSE(sim::complete(second));
    CHECK(sim::count("cuStreamWaitEvent") == 1);
    use(primary);
    let_go(bed.here);
    CHECK(sim::complete(second));
  }
}

TEST_CASE("a green context's legacy stream pays apart from its primary's", "[green]") {
  Green bed;
  const Address p = bed.owed_block();
  use(primary);
  bed.launch(CU_STREAM_LEGACY, {.accesses = {{p, kBytes, false}}});
  CHECK(sim::count("cuStreamWaitEvent") == 1);
  use(green);
  bed.launch(CU_STREAM_LEGACY, {.accesses = {{p, kBytes, false}}});
  CHECK(sim::count("cuStreamWaitEvent") == 2);
  use(primary);
  sim::release(bed.here);
}

TEST_CASE("memory had with a green context current is the primary's", "[green]") {
  Green bed;
  use(green);
  const Address p = bed.malloc_in(green, kBytes);
  const BlockInfo info = bed.info(p);
  CHECK(info.context == primary);
  // A free on a green stream waits for nothing on the host.
  bed.launch(bed.there, {.accesses = {{p, kBytes, true}}});
  bed.free_on(bed.there, p);
  CHECK_FALSE(sim::complete(sim::last_op(bed.there)));
  CHECK(bed.malloc_on(bed.there, kBytes) == p);
  use(primary);
  bed.end();
  CHECK(bed.allocator->find(p, nullptr) == Ownership::Live);
}

TEST_CASE("a stream that has a green one's handle next pays for itself", "[green]") {
  Green bed;
  (void)bed.owed_block();
  bed.launch(bed.there);
  REQUIRE(sim::count("cuStreamWaitEvent") == 1);
  bed.allocator->context_destroyed(green);
  bed.launch(bed.there);
  CHECK(sim::count("cuStreamWaitEvent") == 2);
}

TEST_CASE("a green context's end does not wait for its primary context", "[green]") {
  Green bed;
  (void)bed.malloc(kBytes);
  bed.malloc_in(bed.made.context, kBytes);  // so that it is known
  bed.malloc_in(make_context(), kBytes);
  use(primary);
  bed.launch(bed.here);
  const sim::OpId kernel = sim::last_op(bed.here);
  bed.end();
  CHECK_FALSE(sim::complete(kernel));
}
