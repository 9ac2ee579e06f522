// SPDX-License-Identifier: MIT
// The same cases on the core itself, in one process with the simulated driver: no doors, no
// runtime, and no driver call on a hit. What this shows is the core's host cost.
//
//   core --loop PEER BYTES PAIRS    that many pairs and nothing else, to count instructions
#include "allocator/allocator.hpp"
#include "allocator/submission.hpp"
#include "tests/bench/peer.hpp"
#include "tests/sim/sim.hpp"

#include <cstdlib>
#include <string_view>

#include <benchmark/benchmark.h>

namespace bench {
namespace {

using custash::Address;

struct Bed {
  custash::sim::Sim sim{{.device_memory = Bytes{64} << 30, .log = false}};
  // Never destroyed, as in the product.
  custash::Allocator& allocator = *new custash::Allocator(sim.driver(), custash::Config{});

  using Bytes = custash::Bytes;
};

Bed& bed() {
  static Bed& only = *new Bed;
  return only;
}

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

Address address_of(void* block) {
  return reinterpret_cast<Address>(block);
}

// As the doors do: what is fast and makes no driver call first.
void* plain(std::size_t bytes, void*) {
  const CUcontext context = bed().sim.context();
  Address block = bed().allocator.try_allocate(context, bytes);
  if (block == 0 && !bed().allocator.allocate(context, bytes, &block).ok()) return nullptr;
  return pointer(block);
}

void release_plain(void* block, std::size_t, void*) {
  if (!bed().allocator.try_free(address_of(block)) &&
      !bed().allocator.free(address_of(block))->ok())
    std::abort();
}

constexpr auto kNull = custash::NullStream::Legacy;

void* named(std::size_t bytes, void* stream) {
  const auto on = static_cast<CUstream>(stream);
  Address block = bed().allocator.try_allocate_on(bed().sim.context(), on, kNull, bytes);
  if (block == 0 &&
      !bed().allocator.allocate_on(bed().sim.context(), on, kNull, bytes, &block).ok())
    return nullptr;
  return pointer(block);
}

void release_named(void* block, std::size_t, void* stream) {
  const auto on = static_cast<CUstream>(stream);
  if (!bed().allocator.free_on(address_of(block), on, kNull)->ok()) std::abort();
}

void trim() {
  if (!bed().allocator.trim(0, ~custash::Bytes{0}).ok()) std::abort();
}

constexpr Peer kPeers[] = {
    {"core", Kind::Plain, plain, release_plain, trim},
    {"core_named", Kind::Named, named, release_named, trim},
};

void* new_stream() {
  CUstream stream = nullptr;
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) std::abort();
  return stream;
}

void submit(void* stream) {
  const auto on = static_cast<CUstream>(stream);
  custash::Submission submission(bed().allocator, on, kNull, custash::SubmissionKind::Hidden);
  const CUresult result = custash::sim::launch(on, {});
  submission.done(result);
  if (result != CUDA_SUCCESS) std::abort();
}

int loop(std::string_view name, std::size_t bytes, long pairs) {
  for (const Peer& peer : kPeers) {
    if (name != peer.name) continue;
    void* const stream = new_stream();
    for (long i = 0; i < pairs; ++i)
      peer.release(peer.allocate(bytes, stream), bytes, stream);
    return 0;
  }
  return 2;
}

}  // namespace

const Device device{
    [] { cuCtxSetCurrent(bed().sim.context()); },
    new_stream,
    submit,
    submit,
    [](void*) {},
    [] { custash::sim::run_all(); },
    [](void*, void*) {},  // a simulated launch takes a hundred times as long as a pair
    [] { return std::size_t{0}; },
};

}  // namespace bench

int main(int argc, char** argv) {
  bench::bed();
  if (argc == 5 && std::string_view(argv[1]) == "--loop")
    return bench::loop(argv[2], std::strtoul(argv[3], nullptr, 0), std::atol(argv[4]));
  for (const bench::Peer& peer : bench::kPeers)
    bench::register_cases(peer);
  bench::register_control();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
