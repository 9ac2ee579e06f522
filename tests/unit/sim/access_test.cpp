// SPDX-License-Identifier: MIT
// What work may touch is judged from its beginning to its end: at both, and whenever memory or
// access is taken away in between.
#include "tests/unit/sim/judged.hpp"

using namespace custash;
using namespace custash::sim;

namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

// A page, mapped and accessible to device 0.
struct Page {
  explicit Page(bool mapped = true) {
    REQUIRE(address != 0);
    REQUIRE(make_page(&handle, kPage) == CUDA_SUCCESS);
    if (mapped) map();
  }

  void map() const {
    CHECK(cuMemMap(address, kPage, 0, handle, 0) == CUDA_SUCCESS);
    access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }

  void unmap() const { CHECK(cuMemUnmap(address, kPage) == CUDA_SUCCESS); }

  void access(CUmemAccess_flags flags) const {
    CHECK(allow(address, kPage, flags) == CUDA_SUCCESS);
  }

  [[nodiscard]] CUresult write(CUstream stream, int needs = 0) const {
    return launch(stream, {.accesses = {{address, 512, true}}, .needs_flag = needs});
  }

  CUdeviceptr address = reserve(kPage);
  CUmemGenericAllocationHandle handle = 0;
};

std::size_t faults_at_the_end() {
  set_flag(1);
  run_all();
  return faults().size();
}

}  // namespace

TEST_CASE("a page that is gone for a while faults the kernel that runs", "[sim-access]") {
  Judged watched;
  const Page page;
  const CUstream s = make_stream();
  watched.detector.on_alloc(page.address, kPage, this_thread());
  CHECK(page.write(s, 1) == CUDA_SUCCESS);
  run_all();  // begun
  SECTION("nothing happens to it") {
    CHECK(faults_at_the_end() == 0);
    CHECK(watched.clean());
  }
  SECTION("unmapped and mapped again") {
    page.unmap();
    REQUIRE(faults().size() == 1);
    CHECK(faults()[0].why == "taken away while it may run");
    CHECK(watched.detector.count(Report::Fault) == 1);
    CHECK(faults_at_the_end() == 1);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  SECTION("access taken and given again") {
    page.access(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(faults().size() == 1);
  }
}

TEST_CASE("a kernel that may have begun counts as running", "[sim-access]") {
  const Sim sim;
  const Page page;
  const CUstream s = make_stream();
  SECTION("nothing is before it") {
    CHECK(page.write(s) == CUDA_SUCCESS);
    page.unmap();
    CHECK(pending() == 1);  // unmapping does not wait
    CHECK(faults().size() == 1);
    CHECK(faults_at_the_end() == 1);
  }
  SECTION("a kernel is before it, and the page is back when it begins") {
    CHECK(launch(s, {.needs_flag = 1}) == CUDA_SUCCESS);
    CHECK(page.write(s) == CUDA_SUCCESS);
    page.unmap();
    page.map();
    CHECK(faults_at_the_end() == 0);
  }
  SECTION("it is over") {
    CHECK(page.write(s) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    page.unmap();
    CHECK(faults().empty());
  }
}

TEST_CASE("what is mapped only after a kernel has begun comes too late", "[sim-access]") {
  const Sim sim;
  const Page page(false);
  const CUstream s = make_stream();
  CHECK(page.write(s, 1) == CUDA_SUCCESS);
  run_all();
  REQUIRE(faults().size() == 1);
  CHECK(faults()[0].why == "not mapped or not accessible");
}

TEST_CASE("peer access that goes in mid-kernel faults it", "[sim-access]") {
  const Sim sim;
  const CUdeviceptr p = make_block(kPage);
  CUcontext other = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(other) == CUDA_SUCCESS);
  REQUIRE(cuCtxEnablePeerAccess(sim.context(), 0) == CUDA_SUCCESS);
  const CUstream s = make_stream();
  CHECK(launch(s, {.accesses = {{p, 512, true}}, .needs_flag = 1}) == CUDA_SUCCESS);
  run_all();
  SECTION("it stays") {
    CHECK(faults_at_the_end() == 0);
  }
  SECTION("it goes") {
    CHECK(cuCtxDisablePeerAccess(sim.context()) == CUDA_SUCCESS);
    CHECK(faults().size() == 1);
  }
}
