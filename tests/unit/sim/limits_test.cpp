// SPDX-License-Identifier: MIT
// Memory that pools give back when it is short, and plain memory freed on a stream.
#include "tests/unit/sim/judged.hpp"

#include <thread>

using namespace custash;
using namespace custash::sim;

namespace {

constexpr Bytes kBytes = Judged::kBytes;

CUdeviceptr ordered_block(CUstream s, std::size_t bytes) {
  CUdeviceptr p = 0;
  return cuMemAllocAsync(&p, bytes, s) == CUDA_SUCCESS ? p : 0;
}

}  // namespace

TEST_CASE("an allocation that finds no memory takes what pools keep", "[sim-limits]") {
  const Sim sim({.device_memory = 64_MiB});
  CUmemoryPool pool = nullptr;
  std::uint64_t all = ~std::uint64_t{0};
  REQUIRE(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
  const CUstream s = make_stream();
  const CUdeviceptr p = ordered_block(s, 48_MiB);
  CHECK(p != 0);
  SECTION("what is in use stays") {
    CHECK(make_block(32_MiB) == 0);
  }
  SECTION("what the device may still use stays") {
    CHECK(cuMemFreeAsync(p, s) == CUDA_SUCCESS);
    CHECK(make_block(32_MiB) == 0);
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    CHECK(used(0) == 48_MiB);
    CHECK(make_block(32_MiB) != 0);
  }
}

TEST_CASE("plain memory may be freed on a stream", "[sim-limits]") {
  const Sim sim;
  const CUstream s = make_stream();
  const CUdeviceptr p = make_block(3_MiB);
  CHECK(launch(s, {.accesses = {{p, kBytes, true}}}) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(p, s) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(p, s) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(used(0) == 4_MiB);
  CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
  CHECK(used(0) == 0);
  CHECK(faults().empty());
}

TEST_CASE("an allocator knows what it has waited for, not what its callers have",
          "[sim-limits]") {
  for (const bool by_allocator : {false, true}) {
    Judged watched;
    judge_by_allocator_waits();
    watched.write(watched.a);
    std::thread([&] {
      CHECK(cuCtxSetCurrent(watched.sim.context()) == CUDA_SUCCESS);
      CHECK((by_allocator ? watched.sim.driver().ctx_synchronize() : cuCtxSynchronize()) ==
            CUDA_SUCCESS);
    }).join();
    watched.freed_and_had_again();
    watched.write(watched.b);
    CHECK(watched.detector.count(Report::AllocatorFault) == (by_allocator ? 0 : 1));
  }
}
