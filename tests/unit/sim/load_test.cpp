// SPDX-License-Identifier: MIT
// Random programs over the simulator itself: it must stay fast, keep its own books straight,
// and give the same run for the same seed.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <random>

using namespace custash;
using namespace custash::sim;

namespace {

// What a program of 60 steps leaves behind: its codes and the time that it took.
struct Trace {
  std::uint64_t codes = 0;
  Nanoseconds end = 0;

  bool operator==(const Trace&) const = default;
};

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    for (CUstream& s : streams_)
      s = make_stream(random_() % 2 == 0 ? 0U : 1U);
    streams_[3] = nullptr;
    for (CUevent& e : events_)
      e = make_event();
  }

  Trace run() {
    for (int i = 0; i < 60; ++i)
      note(step());
    for (const CUdeviceptr p : blocks_)
      note(cuMemFree(p));
    note(cuCtxSynchronize());
    return {codes_, now()};
  }

 private:
  CUstream stream() { return streams_[random_() % 4]; }

  CUevent event() { return events_[random_() % 3]; }

  void note(CUresult code) { codes_ = codes_ * 31 + static_cast<std::uint64_t>(code); }

  CUresult step() {
    switch (random_() % 7) {
      case 0:
        return allocate();
      case 1:
        return free_one();
      case 2:
        return cuEventRecord(event(), stream());
      case 3:
        return cuStreamWaitEvent(stream(), event(), 0);
      case 4:
        return cuEventQuery(event());
      default:
        return work();
    }
  }

  CUresult allocate() {
    CUdeviceptr p = 0;
    const CUresult result =
        cuMemAlloc(&p, 1 + random_() % (random_() % 2 == 0 ? 4_KiB : 8_MiB));
    if (result == CUDA_SUCCESS) blocks_.push_back(p);
    return result;
  }

  CUresult free_one() {
    if (blocks_.empty()) return CUDA_SUCCESS;
    const CUdeviceptr p = blocks_.back();
    blocks_.pop_back();
    return cuMemFree(p);
  }

  CUresult work() {
    Kernel kernel;
    if (!blocks_.empty()) kernel.accesses = {{blocks_[random_() % blocks_.size()], 1, true}};
    return launch(stream(), std::move(kernel));
  }

  std::mt19937_64 random_;
  CUstream streams_[4] = {};
  CUevent events_[3] = {};
  std::vector<CUdeviceptr> blocks_;
  std::uint64_t codes_ = 0;
};

Trace run_program(Advance mode, std::uint64_t seed) {
  const Sim sim({.device_memory = 128_MiB, .seed = seed, .advance = mode});
  const Trace trace = Program(seed).run();
  REQUIRE(used(0) == 0);
  REQUIRE(live_allocations() == 0);
  REQUIRE(pending() == 0);
  REQUIRE(faults().empty());
  REQUIRE_FALSE(hung());
  return trace;
}

}  // namespace

TEST_CASE("random programs end, leave nothing behind and repeat themselves", "[sim-load]") {
  const auto mode = GENERATE(Advance::Told, Advance::Seeded, Advance::Timed);
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    REQUIRE(run_program(mode, seed) == run_program(mode, seed));
}
