// SPDX-License-Identifier: MIT
// pinned_hammer [SECONDS] [SEED]: real threads at one HostCache over the simulator: buffers
// filled, copied and freed at once, by either free, handed from thread to thread; streams
// named; empty, questions, statistics; a second context that comes and goes. In rounds, each a
// fresh world. After each: no fault of the allocator's in the race detector's eyes, validate(),
// and nothing held.
#include "allocator/submission.hpp"
#include "tests/concurrency/rounds.hpp"

#include <string>

namespace custash {
namespace {

constexpr Bytes kMost = 5_MiB;
// Nothing touches it, so that rounds are short; some rounds map and register.
constexpr unsigned kUntouched = CU_MEMHOSTALLOC_WRITECOMBINED;

Address at(const void* buffer) {
  return reinterpret_cast<Address>(buffer);
}

struct Owned {
  void* buffer = nullptr;
  Bytes bytes = 0;
};

struct Round {
  Allocator& core;
  HostCache& cache;
  sim::RaceDetector& detector;
  CUcontext context;
  unsigned flags;
  Shelf<Owned> shelf = {};
};

class Worker : private Owner<Owned> {
 public:
  Worker(Round& round, std::uint64_t seed) : Owner(seed), round_(round) {}

  void run() {
    cuCtxSetCurrent(round_.context);
    self_ = sim::this_thread();
    for (Stream& stream : streams_) {
      expect(cuStreamCreate(&stream.handle, pick(2) == 0 ? 0 : CU_STREAM_NON_BLOCKING),
             "cuStreamCreate");
      expect(cuMemAlloc(&stream.memory, kMost), "cuMemAlloc");
      round_.detector.on_alloc(stream.memory, kMost, self_);
    }
    for (int i = 0; i < kSteps; ++i)
      step();
    while (!owned_.empty())
      free(take());
    for (Stream& stream : streams_) {
      round_.core.stream_destroyed(stream.handle);
      expect(cuStreamDestroy(stream.handle), "cuStreamDestroy");
    }
  }

 private:
  struct Stream {
    CUstream handle = nullptr;
    CUdeviceptr memory = 0;  // its alone
  };

  Stream& any_stream() { return streams_[pick(3)]; }

  void step() {
    const auto dice = pick(100);
    if (dice < 35) {
      alloc();
      if (pick(3) == 0) free(take());
    } else if (dice < 55) {
      if (!owned_.empty()) copy(owned_.back());
    } else if (dice < 80) {
      if (owned_.size() > 3) free(take());
    } else if (dice < 88) {
      swap(round_.shelf, round_.detector);
    } else if (dice < 91) {
      expect(cuStreamSynchronize(any_stream().handle), "cuStreamSynchronize");
    } else if (dice < 93) {
      expect(round_.cache.reclaim().empty().code(), "empty");
    } else if (dice < 95) {
      sim::advance_clock(40'000'000'000);
    } else if (dice < 96) {
      other_context();
    } else {
      look();
    }
  }

  Bytes size() {
    static constexpr Bytes kSizes[] = {100, 4096, 70'000, 1_MiB, 3_MiB, kMost};
    return kSizes[pick(6)];
  }

  void alloc() {
    const Bytes bytes = size();
    void* buffer =
        pick(2) == 0 ? round_.cache.try_allocate(round_.context, bytes, round_.flags) : nullptr;
    if (buffer == nullptr)
      expect(round_.cache.allocate(round_.context, bytes, round_.flags, &buffer).code(),
             "allocate");
    round_.detector.on_alloc(at(buffer), bytes, self_);
    owned_.push_back({buffer, bytes});
    copy(owned_.back());
  }

  // Reads only: one thread's streams are not ordered here; that no other owner's access is
  // beside it is what the detector looks at.
  void copy(const Owned& from) {
    Stream& stream = any_stream();
    if (pick(4) == 0)
      expect(round_.cache.record_stream(from.buffer, stream.handle, NullStream::Legacy).code(),
             "record_stream");
    Submission submission(
        round_.core, stream.handle, NullStream::Legacy, SubmissionKind::Hidden, stream.memory);
    const CUresult result =
        cuMemcpyHtoDAsync(stream.memory, from.buffer, from.bytes, stream.handle);
    submission.done(result);
    expect(result, "cuMemcpyHtoDAsync");
  }

  void free(const Owned& gone) {
    round_.detector.on_free(at(gone.buffer), self_);
    if (pick(3) == 0 && round_.cache.try_free(gone.buffer)) return;
    expect_freed(round_.cache.free(gone.buffer), "free");
  }

  // It allocates, works and ends with buffers in flight.
  void other_context() {
    CUcontext const other = create_context();
    Stream stream;
    void* buffer = nullptr;
    expect(cuStreamCreate(&stream.handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    expect(cuMemAlloc(&stream.memory, 4096), "cuMemAlloc");
    round_.detector.on_alloc(stream.memory, 4096, self_);
    expect(round_.cache.allocate(other, 4096, round_.flags, &buffer).code(), "allocate");
    {
      Submission submission(
          round_.core, stream.handle, NullStream::Legacy, SubmissionKind::Hidden);
      const CUresult result = cuMemcpyHtoDAsync(stream.memory, buffer, 4096, stream.handle);
      submission.done(result);
      expect(result, "cuMemcpyHtoDAsync");
    }
    expect_freed(round_.cache.free_behind_streams(buffer), "free_behind_streams");
    round_.detector.on_free(stream.memory, self_);
    end_context(round_.core, round_.cache, other);
    cuCtxSetCurrent(round_.context);
  }

  void look() {
    (void)round_.cache.stats();
    expect(round_.cache.validate(), "validate");
    if (owned_.empty()) return;
    HostBlockInfo info;
    const Owned& mine = owned_.back();
    expect(round_.cache.find(at(mine.buffer) + mine.bytes - 1, &info) == Ownership::Live,
           "find");
    expect(info.base == at(mine.buffer) && info.requested == mine.bytes, "find: which");
  }

  Round& round_;
  Stream streams_[3] = {};
};

bool check_round(std::uint64_t seed) {
  sim::RaceDetector& detector = sim::listening_detector();
  const sim::Sim world(options_of(seed));
  sim::advance_clock(1'000'000'000'000);
  Config config = config_of(seed);
  config.backing = Backing::Driver;
  auto& driver = kept<Driver>(world.driver());
  auto& core = kept<Allocator>(driver, config);
  auto& cache = kept<HostCache>(driver, core.config(), core);
  Round round{.core = core,
              .cache = cache,
              .detector = detector,
              .context = world.context(),
              .flags = seed % 8 == 0 ? 0 : kUntouched};
  run_threads<Worker>(round, seed);
  for (const auto& [left, from] : round.shelf.left) {
    detector.on_free(at(left.buffer), sim::this_thread());
    expect_freed(cache.free(left.buffer), "the last free");
  }
  empty_all([&] { return cache.reclaim().empty(); });
  expect(cache.validate() && core.validate(), "validate");
  for (const auto& [name, value] : cache.stats().flatten()) {
    if (name.find(".current") != std::string::npos)
      expect(value == 0, name.c_str(), static_cast<int>(value));
  }
  expect(sim::live_host_blocks() == 0, "pinned memory remains");
  return judge(detector, seed);
}

}  // namespace
}  // namespace custash

int main(int argc, char** argv) {
  return custash::run_rounds(argc, argv, "pinned_hammer", custash::check_round);
}
