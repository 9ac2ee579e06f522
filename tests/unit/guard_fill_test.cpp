// SPDX-License-Identifier: MIT
// Guarded blocks that begin with bytes of 255: what comes after the fill.
#include "allocator/peer_processes.hpp"
#include "tests/unit/guards_bed.hpp"

#include <algorithm>

using namespace custash;

namespace {

Config filling() {
  Config config = guarding();
  config.guard.fill = true;
  return config;
}

Bytes count_of(Address p, Bytes bytes, unsigned char value) {
  const auto* const at = reinterpret_cast<const unsigned char*>(p);
  return static_cast<Bytes>(std::count(at, at + bytes, value));
}

}  // namespace

TEST_CASE("a guarded block begins with bytes of 255 where they are asked for", "[guard_fill]") {
  Bed bed({.data = true}, filling());
  for (const bool on_a_stream : {false, true}) {
    const Address p = on_a_stream ? bed.malloc_on(bed.stream(), 1000) : bed.malloc(1000);
    sim::run_all();
    CHECK(count_of(p, 1000, 0xff) == 1000);
    GuardedMemory(*bed.allocator).order_fills(nullptr);
    CHECK(DeviceGuards::fills() == 0);
  }
}

// Where the device does the fill last of all that it may.
TEST_CASE("work on any stream comes after the fill", "[guard_fill]") {
  for (const bool late : {false, true}) {  // the fill has begun, or not even that
    Bed bed({.data = true}, filling());
    const CUstream stream = bed.stream();
    const Address p = bed.malloc(1000);
    if (late) sim::run(1);
    GuardedMemory(*bed.allocator).order_fills(stream);
    REQUIRE(cuMemsetD8Async(p, 7, 1000, stream) == CUDA_SUCCESS);
    CHECK_FALSE(sim::complete(sim::last_op(stream)));
    sim::run_all();
    CHECK(count_of(p, 1000, 7) == 1000);
    GuardedMemory(*bed.allocator).order_fills(nullptr);
    CHECK(DeviceGuards::fills() == 0);
  }
}

TEST_CASE("memory that leaves the streams' sight has been filled", "[guard_fill]") {
  Bed bed({.data = true}, filling());
  const Address p = bed.malloc(1000);
  REQUIRE(PeerProcesses(*bed.allocator).quiet(p).ok());
  CHECK(count_of(p, 1000, 0xff) == 1000);
  CHECK(DeviceGuards::fills() == 0);
}

TEST_CASE("a driver that refuses to fill leaves blocks as they are", "[guard_fill]") {
  Bed bed({.data = true}, filling());
  sim::fail_symbol("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const Address p = bed.malloc(1000);
  sim::run_all();
  CHECK(DeviceGuards::fills() == 0);
  CHECK(count_of(p, 1000, 0) == 1000);
  // Without an event after it, the fill is over at once.
  sim::fail_symbol("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY);
  const Address q = bed.malloc(1000);
  CHECK(count_of(q, 1000, 0xff) == 1000);
}
