// SPDX-License-Identifier: MIT
// Green contexts: a second context of the device stands for one, which the simulator lets use the
// first one's memory, and cuStreamGetCtx_v2 answers as the driver does of a green context.
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;
CUcontext primary = nullptr;
CUcontext green = nullptr;

CUresult CUDAAPI get_ctx(CUstream stream, CUcontext* regular, void** of_green) {
  const CUresult result = cuStreamGetCtx(stream, regular);
  *of_green = nullptr;
  if (result != CUDA_SUCCESS || *regular != green) return result;
  *of_green = green;
  *regular = primary;
  return result;
}

struct Green : Bed {
  Green() {
    driver = sim.driver();
    primary = sim.context();
    green = make_context(0);
    there = stream();
    legacy_there = CU_STREAM_LEGACY;
    use(primary);
    here = stream();
    driver.stream_get_ctx_v2 = get_ctx;
    static auto& all = *new std::vector<Allocator*>;
    allocator = all.emplace_back(new Allocator(driver, vmm()));
  }

  static void use(CUcontext context) { REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS); }

  // Freed under a kernel that still runs, and handed out again.
  Address owed_block() {
    use(primary);
    const Address p = malloc(kBytes);
    launch(here, {.accesses = {{p, kBytes, true}}});
    sim::hold(here);
    free(p);
    REQUIRE(malloc(kBytes) == p);
    return p;
  }

  static inline Driver driver;  // allocators are never destroyed
  CUstream here = nullptr, there = nullptr, legacy_there = nullptr;
};

}  // namespace

TEST_CASE("a kernel on a green stream comes after the former owner's", "[unit][green]") {
  for (const bool named : {true, false}) {
    Green bed;
    const Address p = bed.owed_block();
    Green::use(green);
    const CUstream stream = named ? bed.there : bed.legacy_there;
    bed.launch(stream, {.accesses = {{p, kBytes, true}}});
    const auto second = sim::last_op(stream);
    sim::run_all();
    CHECK_FALSE(sim::complete(second));
    CHECK(sim::count("cuStreamWaitEvent") == 1);
    Green::use(primary);
    sim::release(bed.here);
    sim::run_all();
    CHECK(sim::complete(second));
  }
}

TEST_CASE("a green context's legacy stream pays apart from its primary's", "[unit][green]") {
  Green bed;
  const Address p = bed.owed_block();
  Green::use(primary);
  bed.launch(CU_STREAM_LEGACY, {.accesses = {{p, kBytes, false}}});
  CHECK(sim::count("cuStreamWaitEvent") == 1);
  Green::use(green);
  bed.launch(CU_STREAM_LEGACY, {.accesses = {{p, kBytes, false}}});
  CHECK(sim::count("cuStreamWaitEvent") == 2);
  Green::use(primary);
  sim::release(bed.here);
}

TEST_CASE("memory had with a green context current is the primary's", "[unit][green]") {
  Green bed;
  Green::use(green);
  Address p = 0;
  REQUIRE(bed.allocator->allocate(green, kBytes, &p).ok());
  BlockInfo info;
  REQUIRE(bed.allocator->find(p, &info) == Ownership::Live);
  CHECK(info.context == primary);
  // A free on a green stream waits for nothing on the host.
  bed.launch(bed.there, {.accesses = {{p, kBytes, true}}});
  bed.free_on(bed.there, p);
  CHECK_FALSE(sim::complete(sim::last_op(bed.there)));
  CHECK(bed.malloc_on(bed.there, kBytes) == p);
  Green::use(primary);
  bed.allocator->context_destroyed(green);
  CHECK(bed.allocator->find(p, &info) == Ownership::Live);
}

TEST_CASE("a stream that has a green one's handle next pays for itself", "[unit][green]") {
  Green bed;
  (void)bed.owed_block();
  Green::use(green);
  bed.launch(bed.there);
  REQUIRE(sim::count("cuStreamWaitEvent") == 1);
  bed.allocator->context_destroyed(green);
  bed.launch(bed.there);
  CHECK(sim::count("cuStreamWaitEvent") == 2);
}
