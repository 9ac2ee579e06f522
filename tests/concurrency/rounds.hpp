// SPDX-License-Identifier: MIT
// What the hammers share: rounds, each a fresh world with another configuration and its own
// threads, and what is asked after each.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
#include "pinned/host_cache.hpp"
#include "tests/sim/race_detector.hpp"
#include "tests/sim/sim.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace custash {

constexpr int kThreads = 6;
constexpr int kSteps = 250;  // of each thread in a round

inline std::atomic<int> entries_with_lock_held{0};
inline std::atomic<int> unexpected{0};

inline void expect(bool right, const char* what, int code = 0) {
  if (right) return;
  if (unexpected.fetch_add(1) < 10) std::printf("unexpected: %s (%d)\n", what, code);
}

inline void expect(CUresult result, const char* what) {
  expect(result == CUDA_SUCCESS, what, static_cast<int>(result));
}

inline void expect_freed(const std::optional<Status>& freed, const char* what) {
  expect(freed.value_or(CUDA_ERROR_NOT_FOUND).code(), what);
}

// Made for a round, and never destroyed, as in the product.
template <typename Made, typename... Arguments>
Made& kept(Arguments&&... arguments) {
  static auto& all = *new std::deque<Made>;
  return all.emplace_back(std::forward<Arguments>(arguments)...);
}

// It is current from now on.
inline CUcontext create_context() {
  using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
  static const auto create = reinterpret_cast<Create>(sim::resolve("cuCtxCreate_v2"));
  CUcontext made = nullptr;
  expect(create(&made, 0, 0), "cuCtxCreate");
  return made;
}

// As the hooks do.
inline void end_context(Allocator& core, HostCache& cache, CUcontext context) {
  cache.context_destroyed(context);
  core.context_destroyed(context);
  expect(cuCtxDestroy(context), "cuCtxDestroy");
  core.context_gone(context);
  cache.reclaim().context_gone(context);
}

inline sim::Options options_of(std::uint64_t seed) {
  sim::Options options;
  options.seed = seed;
  options.advance = sim::Advance::Seeded;
  options.log = false;
  options.context_events = seed % 4 != 3;
  sim::set_entry_check([] { entries_with_lock_held += held_locks(); });
  return options;
}

inline Config config_of(std::uint64_t seed) {
  Config config;
  config.backing = seed % 2 == 0 ? Backing::Driver : Backing::Vmm;
  config.single_stream = seed % 5 != 4;
  config.run_ahead_percent = seed % 3 == 0 ? 0 : 10;
  if (seed % 4 < 2) config.slabs_after = 0;
  return config;
}

// Where threads leave what they own for each other.
template <typename Owned>
struct Shelf {
  std::mutex mutex;
  std::vector<std::pair<Owned, sim::ThreadId>> left;
};

// A thread of a hammer: what it owns, and what it draws.
template <typename Owned>
class Owner {
 protected:
  explicit Owner(std::uint64_t seed) : random_(seed) {}

  std::uint64_t pick(std::uint64_t of) { return random_() % of; }

  Owned take() {
    const std::size_t at = pick(owned_.size());
    const Owned found = owned_[at];
    owned_[at] = owned_.back();
    owned_.pop_back();
    return found;
  }

  // Leaves one of its own, and takes the one that has lain longest.
  void swap(Shelf<Owned>& shelf, sim::RaceDetector& detector) {
    const std::lock_guard lock(shelf.mutex);
    if (!owned_.empty()) shelf.left.emplace_back(take(), self_);
    if (shelf.left.size() <= 4) return;
    detector.thread_sync(shelf.left.front().second, self_);
    owned_.push_back(shelf.left.front().first);
    shelf.left.erase(shelf.left.begin());
  }

  std::mt19937_64 random_;
  sim::ThreadId self_ = 0;
  std::vector<Owned> owned_;
};

// `Worker(round, seed).run()` on each thread; what they did is before what this one does next.
template <typename Worker, typename Round>
void run_threads(Round& round, std::uint64_t seed) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&round, seed, i] { Worker(round, seed * 100 + static_cast<std::uint64_t>(i)).run(); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (int i = 1; i <= kThreads; ++i)
    round.detector.thread_sync(static_cast<sim::ThreadId>(i), sim::this_thread());
}

// `empty`: gives back all that is held.
template <typename Empty>
void empty_all(Empty empty) {
  expect(cuCtxSynchronize(), "cuCtxSynchronize");
  for (int i = 0; i < 2; ++i) {
    expect(empty().code(), "the last empty");
    sim::run_all();
  }
  sim::set_entry_check(nullptr);
  expect(!sim::hung(), "hung");
}

// True when all of the round was as it should be.
inline bool judge(const sim::RaceDetector& detector, std::uint64_t seed) {
  expect(entries_with_lock_held == 0, "the driver was entered with a lock held");
  const std::size_t faults =
      detector.count(sim::Report::AllocatorFault) + detector.count(sim::Report::Fault);
  if (faults != 0) std::printf("%s", detector.text().substr(0, 4000).c_str());
  expect(faults == 0, "faults of the allocator", static_cast<int>(faults));
  if (unexpected != 0) std::printf("round seed %llu\n", static_cast<unsigned long long>(seed));
  return unexpected == 0;
}

// The command: NAME [SECONDS] [SEED].
inline int run_rounds(int argc, char** argv, const char* name, bool (*round)(std::uint64_t)) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const char* text = argc > 2 ? argv[2] : std::getenv("CUSTASH_SEED");
  std::uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int rounds = 0;
  do {
    ++rounds;
    if (!round(seed++)) return 1;
  } while (std::chrono::steady_clock::now() < until);
  std::printf("%s: %d rounds of %d threads, nothing wrong\n", name, rounds, kThreads);
  return 0;
}

}  // namespace custash
