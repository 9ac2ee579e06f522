// SPDX-License-Identifier: MIT
// hammer [SECONDS] [SEED]: real threads at one Allocator over the simulator, as the doors would
// use it: plain and stream-ordered calls, launches, copies to the host, empty_cache, captures,
// blocks handed from thread to thread. In rounds, each a fresh world with another
// configuration. After each: no fault of the allocator's in the race detector's eyes,
// validate(), and everything returned.
#include "allocator/graph_memory.hpp"
#include "allocator/sleep/deep_trim.hpp"
#include "allocator/sleep/sleep.hpp"
#include "allocator/submission.hpp"
#include "tests/concurrency/rounds.hpp"

namespace custash {
namespace {

struct Owned {
  Address address = 0;
  Bytes bytes = 0;
};

struct Round {
  Allocator& allocator;
  sim::RaceDetector& detector;
  CUcontext context;
  bool nearly_full;  // small blocks lie as the driver lays them, and everything goes the long
                     // way
  bool sleeps = false;  // threads put the process to sleep or trim it deeply now and then
  Shelf<Owned> shelf = {};
  CUstream shared = nullptr;  // of all threads
  std::atomic<bool> capture_taken{false};
};

class Worker : private Owner<Owned> {
 public:
  Worker(Round& round, std::uint64_t seed) : Owner(seed), round_(round) {}

  void run() {
    cuCtxSetCurrent(round_.context);
    self_ = sim::this_thread();
    expect(cuMemAllocHost(&host_, 4096), "cuMemAllocHost");
    for (auto& stream : streams_)
      expect(cuStreamCreate(&stream, pick(2) == 0 ? 0 : CU_STREAM_NON_BLOCKING),
             "cuStreamCreate");
    for (int i = 0; i < kSteps; ++i)
      step();
    while (!owned_.empty())
      free_plain(take());
    for (auto& stream : streams_) {
      round_.allocator.stream_destroyed(stream);
      expect(cuStreamDestroy(stream), "cuStreamDestroy");
    }
  }

 private:
  CUstream any_stream() {
    const auto n = pick(5);
    return n < 3 ? streams_[n] : n == 3 ? CU_STREAM_PER_THREAD : round_.shared;
  }

  void step() {
    const auto dice = pick(100);
    if (dice < 30) {
      malloc_plain();
    } else if (dice < 38) {
      malloc_async();
    } else if (dice < 68) {
      if (!owned_.empty()) launch(owned_.back(), any_stream());
    } else if (dice < 85) {
      if (owned_.size() > 3) free_plain(take());
    } else if (dice < 89) {
      if (!owned_.empty()) copy_and_free(take());
    } else if (dice < 93) {
      swap(round_.shelf, round_.detector);
    } else if (dice < 95) {
      expect(cuStreamSynchronize(any_stream()), "cuStreamSynchronize");
    } else if (dice < 96) {
      expect(round_.allocator.trim(0, ~Bytes{0}).code(), "trim");
    } else if (dice < 98) {
      capture();
    } else {
      look();
    }
  }

  Bytes size() {
    static constexpr Bytes kSizes[] = {
        512, 4096, 70'000, 1_MiB, 3_MiB, 12_MiB, 32_MiB, 33_MiB, 70_MiB, 150_MiB};
    return kSizes[pick(round_.nearly_full ? 4 : std::size(kSizes))];
  }

  void own(Address address, Bytes bytes) {
    round_.detector.on_alloc(address, bytes, self_);
    owned_.push_back({address, bytes});
  }

  void malloc_plain() {
    const Bytes bytes = size();
    Address address = pick(2) == 0 ? round_.allocator.try_allocate(round_.context, bytes) : 0;
    if (address == 0)
      expect(round_.allocator.allocate(round_.context, bytes, &address).code(), "allocate");
    own(address, bytes);
    launch(owned_.back(), any_stream());
  }

  // Used and freed on its stream: the order is the stream's own.
  void malloc_async() {
    const CUstream stream = any_stream();
    const Bytes bytes = size();
    Allocator& allocator = round_.allocator;
    Address address = pick(2) == 0 ? allocator.try_allocate_on(
                                         round_.context, stream, NullStream::Legacy, bytes)
                                   : 0;
    if (address == 0)
      expect(allocator.allocate_on(round_.context, stream, NullStream::Legacy, bytes, &address)
                 .code(),
             "allocate_on");
    round_.detector.on_alloc(address, bytes, self_);
    launch({address, bytes}, stream);
    round_.detector.on_free(address, self_, stream);
    expect_freed(allocator.free_on(address, stream, NullStream::Legacy), "free_on");
  }

  void launch(const Owned& block, CUstream stream) {
    Submission submission(round_.allocator, stream, NullStream::Legacy, SubmissionKind::Hidden);
    // Reads only: one thread's streams are not ordered here; that no other owner's access is
    // beside it is what the detector looks at.
    const CUresult result =
        sim::launch(stream, {.accesses = {{block.address, block.bytes, false}}});
    submission.done(result);
    expect(result, "launch");
  }

  void free_plain(const Owned& block) {
    round_.detector.on_free(block.address, self_);
    if (pick(2) == 0 && round_.allocator.try_free(block.address)) return;
    expect_freed(round_.allocator.free(block.address), "free");
  }

  void copy_and_free(const Owned& block) {
    const CUstream stream = streams_[pick(3)];
    sim::OpId op = 0;
    {
      Submission submission(round_.allocator,
                            stream,
                            NullStream::Legacy,
                            SubmissionKind::Visible,
                            0,
                            block.address);
      const CUresult result = cuMemcpyDtoHAsync(host_, block.address, 512, stream);
      // Before done(): what other threads' fences put behind that is waited for by nobody.
      op = sim::last_op(stream);
      submission.done(result);
      expect(result, "cuMemcpyDtoHAsync");
    }
    free_plain(block);
    expect(sim::complete(op), "the copy to the host is over when its source was freed");
  }

  // Relaxed: other threads, and this one, go on allocating.
  void capture() {
    if (round_.capture_taken.exchange(true)) return;
    const CUstream stream = streams_[pick(3)];
    Allocator& allocator = round_.allocator;
    GraphMemory(allocator).capture_begins(stream, NullStream::Legacy);
    const CUresult began = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GraphMemory(allocator).capture_begin_done(
        stream, NullStream::Legacy, began == CUDA_SUCCESS);
    expect(began, "cuStreamBeginCapture");
    {
      Submission submission(allocator, stream, NullStream::Legacy, SubmissionKind::Hidden);
      submission.done(sim::launch(stream, {}));
    }
    Address address = 0;
    expect(allocator.allocate(round_.context, 4096, &address).code(), "allocate in a capture");
    own(address, 4096);
    CUgraph graph = nullptr;
    const CUresult ended = cuStreamEndCapture(stream, &graph);
    GraphMemory(allocator).capture_ended(stream, NullStream::Legacy, graph);
    expect(ended, "cuStreamEndCapture: the capture is still valid");
    if (ended == CUDA_SUCCESS) {
      GraphMemory memory(allocator);
      const GraphMemory::Leaving leaving = memory.leaves(graph);
      expect(cuGraphDestroy(graph), "cuGraphDestroy");
      memory.destroyed(leaving);
    }
    round_.capture_taken = false;
  }

  void look() {
    constexpr Nanoseconds kPatience = 5'000'000;
    const auto drawn = round_.sleeps ? pick(8) : 8;
    if (drawn < 2) (void)Sleep(round_.allocator).go({.patience = kPatience});
    if (drawn == 2 || drawn == 3)
      (void)DeepTrim(round_.allocator).go({.patience = kPatience, .only_if_idle = drawn == 3});
    (void)round_.allocator.stats(0);
    (void)round_.allocator.reclaimable(0);
    if (owned_.empty()) return;
    BlockInfo info;
    expect(round_.allocator.find(owned_.back().address + 1, &info) == Ownership::Live, "find");
    expect(info.base == owned_.back().address, "find: base");
  }

  Round& round_;
  void* host_ = nullptr;
  CUstream streams_[3] = {};
};

bool check_round(std::uint64_t seed) {
  sim::RaceDetector& detector = sim::listening_detector();
  sim::Options options = options_of(seed);
  const bool nearly_full = seed % 4 == 3;
  options.device_memory = nearly_full ? 1000_MiB : 64_GiB;
  const sim::Sim world(options);
  const Bytes used = sim::used(0);
  auto& allocator = kept<Allocator>(kept<Driver>(world.driver()), config_of(seed));
  Round round{
      .allocator = allocator,
      .detector = detector,
      .context = world.context(),
      .nearly_full = nearly_full,
      .sleeps = seed % 3 == 1,
  };
  expect(cuStreamCreate(&round.shared, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  detector.let_allocator_save(round.sleeps);
  run_threads<Worker>(round, seed);
  for (const auto& [block, from] : round.shelf.left) {
    detector.on_free(block.address, sim::this_thread());
    expect_freed(allocator.free(block.address), "the last free");
  }
  empty_all([&] { return allocator.trim(0, ~Bytes{0}); });
  expect(allocator.validate(), "validate");
  expect(allocator.stats(0).allocated_bytes[0].current == 0, "allocated bytes remain");
  expect(allocator.stats(0).reserved_bytes[0].current == 0, "reserved bytes remain");
  expect(sim::used(0) == used, "device memory remains");
  return judge(detector, seed);
}

}  // namespace
}  // namespace custash

int main(int argc, char** argv) {
  return custash::run_rounds(argc, argv, "hammer", custash::check_round);
}
