// SPDX-License-Identifier: MIT
// teardown [SECONDS] [SEED]: contexts that come, work and end in some threads, while others do
// what reaches into every context: trims of a device and of all, the ladder, frees that wait
// for the other contexts of the device, pinned buffers and their tickets, a neighbour's
// request. After each round: no driver call named a context whose end had begun (undefined
// behaviour on the driver), no error was told to a thread whose own context is well, and
// everything is returned.
#include "allocator/order/context_users.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/submission.hpp"
#include "tests/concurrency/rounds.hpp"

#include <string>

namespace custash {
namespace {

constexpr int kEnders = 3;
constexpr int kKeepers = kThreads - kEnders;
constexpr int kLives = 25;  // contexts of each ender in a round
constexpr unsigned kUntouched = CU_MEMHOSTALLOC_WRITECOMBINED;  // rounds are short

struct Round {
  Allocator& core;
  HostCache& pinned;
  CUcontext context;
  std::atomic<int> enders{kEnders};
};

void launch(Round& round, CUstream stream) {
  Submission submission(round.core, stream, NullStream::Legacy, SubmissionKind::Hidden);
  const CUresult result = sim::launch(stream, {});
  submission.done(result);
  expect(result, "launch");
}

void churn(Round& round, CUcontext context, Bytes bytes, bool keep) {
  Address address = 0;
  expect(round.core.allocate(context, bytes, &address).code(), "allocate");
  launch(round, CU_STREAM_LEGACY);
  if (keep) return;
  expect_freed(round.core.free(address), "free");
}

void churn_pinned(Round& round, CUcontext context) {
  void* buffer = nullptr;
  expect(round.pinned.allocate(context, 3_MiB, kUntouched, &buffer).code(), "pinned");
  launch(round, CU_STREAM_LEGACY);
  expect_freed(round.pinned.free(buffer), "free pinned");
}

void end(Round& round, CUcontext context, bool perhaps) {
  if (perhaps) {  // the release of a primary context that was not the last
    ContextUsers* const users = round.core.users_of(context);
    expect(users != nullptr, "users_of");
    users->close();
    users->open();
  }
  end_context(round.core, round.pinned, context);
}

void make_and_end(Round& round, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int life = 0; life < kLives; ++life) {
    CUcontext const context = create_context();
    for (int i = 0; i < 4; ++i)
      churn(round, context, i % 2 == 0 ? 4_KiB : 5_MiB, random() % 4 == 0);
    if (random() % 2 == 0) churn_pinned(round, context);
    end(round, context, random() % 3 == 0);
  }
  --round.enders;
}

// `context` null: as the service's thread, which has none.
void keep_house(Round& round, std::uint64_t seed, CUcontext context) {
  std::mt19937_64 random(seed);
  expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  while (round.enders.load() != 0) {
    const auto dice = random() % 10;
    if (context == nullptr || dice == 0) {
      (void)PeerProcesses(round.core).give_back(0, ~Bytes{0});
    } else if (dice == 1) {
      expect(round.core.trim(0, ~Bytes{0}).code(), "trim");
    } else if (dice == 2) {
      round.core.empty_all_caches();
    } else if (dice == 3) {
      expect(round.core.trim_idle(0).code(), "trim_idle");
    } else if (dice == 4) {
      (void)round.core.relieve(context);
    } else if (dice == 5) {
      (void)round.core.reclaimable(0);
    } else if (dice == 6) {
      expect(round.pinned.reclaim().empty().code(), "empty");
    } else if (dice == 7) {
      churn_pinned(round, context);
    } else {
      churn(round, context, dice == 8 ? 4_KiB : 5_MiB, false);
    }
  }
}

bool check_round(std::uint64_t seed) {
  sim::RaceDetector& detector = sim::listening_detector();
  sim::Options options = options_of(seed);
  options.teardown = std::chrono::microseconds(200);
  const sim::Sim world(options);
  const Bytes used = sim::used(0);
  auto& driver = kept<Driver>(world.driver());
  auto& core = kept<Allocator>(driver, config_of(seed));
  auto& pinned = kept<HostCache>(driver, core.config(), core);
  Round round{.core = core, .pinned = pinned, .context = world.context()};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kEnders; ++i)
    threads.emplace_back([&, i] { make_and_end(round, seed * 100 + i); });
  for (std::uint64_t i = 0; i < kKeepers; ++i)
    threads.emplace_back(
        [&, i] { keep_house(round, seed * 100 + 50 + i, i == 0 ? nullptr : round.context); });
  for (std::thread& thread : threads)
    thread.join();
  const std::vector<std::string> late = sim::late_uses();
  expect(late.empty(), late.empty() ? "" : late.front().c_str(), static_cast<int>(late.size()));
  empty_all([&] {
    core.empty_all_caches();
    return pinned.reclaim().empty();
  });
  expect(core.validate() && pinned.validate(), "validate");
  expect(sim::used(0) == used, "device memory remains");
  expect(sim::live_host_blocks() == 0, "pinned memory remains");
  return judge(detector, seed);
}

}  // namespace
}  // namespace custash

int main(int argc, char** argv) {
  return custash::run_rounds(argc, argv, "teardown", custash::check_round);
}
