// SPDX-License-Identifier: MIT
// pinned_hammer [SECONDS] [SEED]: real threads at one HostCache over the simulator: buffers
// filled, copied and freed at once, by either free, handed from thread to thread; streams
// named; empty, questions, statistics; a second context that comes and goes. In rounds, each a
// fresh world. After each: no fault of the allocator's in the race detector's eyes, validate(),
// and nothing held.
#include "allocator/mutex.hpp"
#include "pinned/host_cache.hpp"
#include "tests/sim/race_detector.hpp"
#include "tests/sim/sim.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace custash {
namespace {

constexpr int kThreads = 6;
constexpr int kSteps = 250;  // of each thread in a round
constexpr Bytes kMost = 5_MiB;
// Nothing touches it, so that rounds are short; some rounds map and register.
constexpr unsigned kUntouched = CU_MEMHOSTALLOC_WRITECOMBINED;

std::atomic<int> entries_with_lock_held{0};
std::atomic<int> unexpected{0};

void expect(bool right, const char* what, int code = 0) {
  if (right) return;
  if (unexpected.fetch_add(1) < 10) std::printf("unexpected: %s (%d)\n", what, code);
}

void expect(CUresult result, const char* what) {
  expect(result == CUDA_SUCCESS, what, static_cast<int>(result));
}

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
  std::mutex mutex;
  std::vector<std::pair<Owned, sim::ThreadId>>
      shelf;  // where threads leave buffers for each other
};

class Worker {
 public:
  Worker(Round& round, std::uint64_t seed) : round_(round), random_(seed) {}

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

  std::uint64_t pick(std::uint64_t of) { return random_() % of; }

  Stream& any_stream() { return streams_[pick(3)]; }

  Owned take() {
    const std::size_t index = pick(owned_.size());
    const Owned found = owned_[index];
    owned_[index] = owned_.back();
    owned_.pop_back();
    return found;
  }

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
      swap();
    } else if (dice < 91) {
      expect(cuStreamSynchronize(any_stream().handle), "cuStreamSynchronize");
    } else if (dice < 93) {
      expect(round_.cache.empty().code(), "empty");
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
        round_.core, stream.handle, NullStream::Legacy, HostView::Hidden, stream.memory);
    const CUresult result =
        cuMemcpyHtoDAsync(stream.memory, from.buffer, from.bytes, stream.handle);
    submission.done(result);
    expect(result, "cuMemcpyHtoDAsync");
  }

  void free(const Owned& gone) {
    round_.detector.on_free(at(gone.buffer), self_);
    if (pick(3) == 0 && round_.cache.try_free(gone.buffer)) return;
    const auto freed = round_.cache.free(gone.buffer);
    expect(freed.value_or(CUDA_ERROR_NOT_FOUND).code(), "free");
  }

  void swap() {
    const std::lock_guard lock(round_.mutex);
    if (!owned_.empty()) round_.shelf.emplace_back(take(), self_);
    if (round_.shelf.size() <= 4) return;
    round_.detector.thread_sync(round_.shelf.front().second, self_);
    owned_.push_back(round_.shelf.front().first);
    round_.shelf.erase(round_.shelf.begin());
  }

  // It allocates, works and ends with buffers in flight.
  void other_context() {
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    static const auto create = reinterpret_cast<Create>(sim::resolve("cuCtxCreate_v2"));
    CUcontext other = nullptr;
    expect(create(&other, 0, 0), "cuCtxCreate");
    Stream stream;
    void* buffer = nullptr;
    expect(cuStreamCreate(&stream.handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    expect(cuMemAlloc(&stream.memory, 4096), "cuMemAlloc");
    round_.detector.on_alloc(stream.memory, 4096, self_);
    expect(round_.cache.allocate(other, 4096, round_.flags, &buffer).code(), "allocate");
    {
      Submission submission(round_.core, stream.handle, NullStream::Legacy, HostView::Hidden);
      const CUresult result = cuMemcpyHtoDAsync(stream.memory, buffer, 4096, stream.handle);
      submission.done(result);
      expect(result, "cuMemcpyHtoDAsync");
    }
    const auto freed = round_.cache.free_behind_streams(buffer);
    expect(freed.value_or(CUDA_ERROR_NOT_FOUND).code(), "free_behind_streams");
    round_.detector.on_free(stream.memory, self_);
    round_.cache.context_destroyed(other);
    round_.core.context_destroyed(other);
    expect(cuCtxDestroy(other), "cuCtxDestroy");
    round_.core.context_gone(other);
    round_.cache.context_gone(other);
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
  std::mt19937_64 random_;
  sim::ThreadId self_ = 0;
  Stream streams_[3] = {};
  std::vector<Owned> owned_;
};

bool check_round(std::uint64_t seed) {
  static sim::RaceDetector& detector = *new sim::RaceDetector;
  sim::set_observer(&detector);
  sim::Options options;
  options.seed = seed;
  options.advance = sim::Advance::Seeded;
  options.log = false;
  options.context_events = seed % 4 != 3;
  const sim::Sim world(options);
  sim::advance_clock(1'000'000'000'000);
  sim::set_entry_check([] { entries_with_lock_held += held_locks(); });
  Config config;
  config.backing = Backing::Driver;
  config.one_lane = seed % 5 != 4;
  config.run_ahead_percent = seed % 3 == 0 ? 0 : 10;
  auto* driver = new Driver(world.driver());
  auto* core = new Allocator(*driver, config);
  auto* cache = new HostCache(*driver, core->config(), *core);
  static auto& kept =
      *new std::vector<std::tuple<Driver*, Allocator*, HostCache*>>;  // never destroyed
  kept.emplace_back(driver, core, cache);
  Round round{.core = *core,
              .cache = *cache,
              .detector = detector,
              .context = world.context(),
              .flags = seed % 8 == 0 ? 0 : kUntouched};
  const sim::ThreadId main = sim::this_thread();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&round, seed, i] { Worker(round, seed * 100 + static_cast<std::uint64_t>(i)).run(); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int i = 1; i <= kThreads; ++i)
    detector.thread_sync(static_cast<sim::ThreadId>(i), main);
  for (const auto& [left, from] : round.shelf) {
    detector.on_free(at(left.buffer), main);
    expect(cache->free(left.buffer)->code(), "the last free");
  }
  expect(cuCtxSynchronize(), "cuCtxSynchronize");
  for (int i = 0; i < 2; ++i) {
    expect(cache->empty().code(), "the last empty");
    sim::run_all();
  }
  sim::set_entry_check(nullptr);
  expect(!sim::hung(), "hung");
  expect(cache->validate() && core->validate(), "validate");
  for (const auto& [name, value] : cache->stats().flatten()) {
    if (name.find(".current") != std::string::npos)
      expect(value == 0, name.c_str(), static_cast<int>(value));
  }
  expect(sim::live_host_blocks() == 0, "pinned memory remains");
  expect(entries_with_lock_held == 0, "the driver was entered with a lock held");
  const std::size_t faults =
      detector.count(sim::Report::AllocatorFault) + detector.count(sim::Report::Fault);
  if (faults != 0) std::printf("%s", detector.text().substr(0, 4000).c_str());
  expect(faults == 0, "faults of the allocator", static_cast<int>(faults));
  if (unexpected != 0) std::printf("round seed %llu\n", static_cast<unsigned long long>(seed));
  return unexpected == 0;
}

}  // namespace
}  // namespace custash

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const char* text = argc > 2 ? argv[2] : std::getenv("CUSTASH_SEED");
  std::uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int rounds = 0;
  do {
    ++rounds;
    if (!custash::check_round(seed++)) return 1;
  } while (std::chrono::steady_clock::now() < until);
  std::printf(
      "pinned_hammer: %d rounds of %d threads, nothing wrong\n", rounds, custash::kThreads);
  return 0;
}
