// SPDX-License-Identifier: MIT
// What the core itself costs on the host: cached pairs and submissions over the simulated driver,
// whose own calls are not part of a hit. Run without arguments for figures worth reading.
#include <benchmark/benchmark.h>

#include "allocator/allocator.hpp"
#include "tests/sim/sim.hpp"

namespace custash {
namespace {

struct Bed {
  sim::Sim sim{{.log = false}};
  Allocator* allocator = new Allocator(sim.driver(), Config{});  // never destroyed, as in the product
};

Bed& bed() {
  static Bed& only = *new Bed;
  return only;
}

void cached_pair(benchmark::State& state) {
  Allocator& allocator = *bed().allocator;
  const auto bytes = static_cast<Bytes>(state.range(0));
  Address block = 0;
  if (!allocator.allocate(bed().sim.context(), bytes, &block).ok()) {
    state.SkipWithError("no memory");
    return;
  }
  if (!allocator.try_free(block)) state.SkipWithError("the free was no hit");
  for (auto _ : state) {
    block = allocator.try_allocate(bed().sim.context(), bytes);
    benchmark::DoNotOptimize(block);
    if (!allocator.try_free(block)) state.SkipWithError("the free was no hit");
  }
}

void find_block(benchmark::State& state) {
  Allocator& allocator = *bed().allocator;
  Address block = 0;
  if (!allocator.allocate(bed().sim.context(), 4096, &block).ok()) state.SkipWithError("no memory");
  for (auto _ : state) benchmark::DoNotOptimize(allocator.find(block + 100, nullptr));
  if (!allocator.try_free(block)) state.SkipWithError("the free was no hit");
}

BENCHMARK(cached_pair)->Arg(512)->Arg(64 << 10)->Arg(1 << 20)->Arg(8 << 20)->Arg(64 << 20);
BENCHMARK(find_block);

}  // namespace
}  // namespace custash

BENCHMARK_MAIN();
