// SPDX-License-Identifier: MIT
// Ordering rules between threads. One thread is stopped at its entry into a driver call, so
// that the other meets it there at every run.
#include "allocator/graph_memory.hpp"
#include "allocator/order/context_users.hpp"
#include "allocator/sleep/sleep.hpp"
#include "tests/unit/bed.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;
constexpr std::chrono::milliseconds kWhile{20};  // ample for what is not held back

// The thread that is stopped, at its entry of number `stops_at`, or once `context` is current.
thread_local bool stops = false;
std::atomic<int> stops_at{0};
std::atomic<CUcontext> stops_in{nullptr};
std::atomic<CUcontext> stopped_in{nullptr};
std::atomic<bool> stopped{false};
std::atomic<bool> goes_on{false};

void stop() {
  stops = false;
  stopped = true;
  stopped.notify_all();
  goes_on.wait(false);
}

void at_entry() {
  if (!stops) return;
  if (stops_at.load() != 0) {
    if (stops_at.fetch_sub(1) == 1) stop();
    return;
  }
  stops = false;  // the question is an entry, too
  CUcontext now = nullptr;
  cuCtxGetCurrent(&now);
  stops = true;
  if (now == stops_in.load()) return;
  stopped_in = now;
  stop();
}

void reset(int at, CUcontext own) {
  stops_at = at;
  stops_in = own;
  stopped = false;
  goes_on = false;
  sim::set_entry_check(at_entry);
}

void go_on() {
  goes_on = true;
  goes_on.notify_all();
}

// A thread with `context` current whose entries are counted.
template <typename Work>
std::thread stopped_thread(CUcontext context, Work work) {
  return std::thread([context, work] {
    cuCtxSetCurrent(context);
    stops = true;
    work();
    stops = false;
    stopped = true;  // it came to its end
    stopped.notify_all();
  });
}

// As cuDevicePrimaryCtxRelease does: only afterwards is it known that it was the last.
void release(Bed& bed, CUcontext context) {
  bed.allocator->users_of(context)->close();
  cuCtxDestroy(context);
  bed.allocator->context_destroyed(context);
  bed.allocator->context_gone(context);
}

}  // namespace

TEST_CASE("no fence is recorded while a capture begins", "[rules_threads]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  bed.launch(bed.stream(), {.accesses = {{p, kBytes, true}}});
  GraphMemory(*bed.allocator).capture_begins(s, NullStream::Legacy);
  const auto before = records();
  std::thread other([&] {
    cuCtxSetCurrent(bed.sim.context());
    (void)bed.allocator->free(p);
  });
  std::this_thread::sleep_for(kWhile);
  CHECK(records() == before);
  const CUresult began = cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED);
  GraphMemory(*bed.allocator).capture_begin_done(s, NullStream::Legacy, began == CUDA_SUCCESS);
  other.join();
  CHECK(records() > before);
  (void)end_capture(bed, s);
}

TEST_CASE("no capture begins while a fence is recorded", "[rules_threads]") {
  int held_back = 0;
  for (int at = 1; at <= 6; ++at) {
    Bed bed;
    const CUstream s = bed.stream();
    const Address p = bed.malloc(kBytes);
    bed.launch(bed.stream(), {.accesses = {{p, kBytes, true}}});
    reset(at, nullptr);
    std::thread frees =
        stopped_thread(bed.sim.context(), [&] { (void)bed.allocator->free(p); });
    stopped.wait(false);
    std::atomic<bool> begun{false};
    std::thread captures([&] {
      cuCtxSetCurrent(bed.sim.context());
      GraphMemory(*bed.allocator).capture_begins(s, NullStream::Legacy);
      begun = true;
      GraphMemory(*bed.allocator).capture_begin_done(s, NullStream::Legacy, false);
    });
    std::this_thread::sleep_for(kWhile);
    if (!begun) ++held_back;
    go_on();
    frees.join();
    captures.join();
    sim::set_entry_check(nullptr);
  }
  CHECK(held_back > 0);
}

TEST_CASE("a context ends after those who wait for its work", "[rules_threads]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  const CUcontext second = make_context(0);
  const CUstream there = bed.stream();
  bed.malloc_in(second, kBytes);
  bed.launch(there);
  use(bed.sim.context());
  reset(0, bed.sim.context());
  std::thread frees = stopped_thread(bed.sim.context(), [&] { (void)bed.allocator->free(p); });
  stopped.wait(false);
  REQUIRE(stopped_in == second);
  std::atomic<bool> ended{false};
  std::thread ends([&] {
    bed.allocator->context_destroyed(second);
    ended = true;
  });
  std::this_thread::sleep_for(kWhile);
  CHECK_FALSE(ended);
  go_on();
  frees.join();
  ends.join();
  sim::set_entry_check(nullptr);
}

TEST_CASE("a context that has ended meanwhile is passed by", "[rules_threads]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  std::array<CUcontext, 2> others{};
  for (CUcontext& other : others) {
    other = make_context(0);
    bed.malloc_in(other, kBytes);
  }
  for (const CUcontext other : others) {  // now: an allocation elsewhere may record a fence
    use(other);
    bed.launch(bed.stream());
  }
  use(bed.sim.context());
  reset(0, bed.sim.context());
  std::thread frees = stopped_thread(bed.sim.context(), [&] { (void)bed.allocator->free(p); });
  stopped.wait(false);
  release(bed, stopped_in == others[0] ? others[1] : others[0]);
  go_on();
  frees.join();
  sim::set_entry_check(nullptr);
  CHECK(sim::late_uses().empty());
}

TEST_CASE("a free waits for the work of a context that is about to end", "[rules_threads]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  const CUcontext second = make_context(0);
  bed.malloc_in(second, kBytes);
  use(second);
  bed.launch(bed.stream(), {.accesses = {{p, kBytes, true}}});
  bed.allocator->users_of(second)->close();
  CHECK(Sleep(*bed.allocator).go({}).text == "the program is ending a context");
  std::atomic<bool> freed{false};
  std::thread frees([&] {
    cuCtxSetCurrent(bed.sim.context());
    (void)bed.allocator->free(p);
    freed = true;
  });
  std::this_thread::sleep_for(kWhile);
  CHECK_FALSE(freed);
  release(bed, second);
  frees.join();
}

TEST_CASE("memory taken in debt beside a launch that the host feeds is quiet",
          "[rules_threads]") {
  constexpr Bytes kMore = 2 * kBytes;  // grows into the block that was freed
  int shared = 0;
  bool came = true;
  for (int at = 1; came; ++at) {
    CAPTURE(at);
    Bed bed;
    const Owed owed(bed, kBytes);
    reset(at, nullptr);
    Address q = 0;
    std::thread allocates = stopped_thread(bed.sim.context(), [&] {
      (void)bed.allocator->allocate(bed.sim.context(), kMore, &q);
    });
    stopped.wait(false);
    came = stops_at == 0;
    bed.launch(bed.stream(), {}, SubmissionKind::ReachesHost);
    go_on();
    allocates.join();
    sim::set_entry_check(nullptr);
    const bool same = came && q < owed.p + kBytes && owed.p < q + kMore;
    if (same) ++shared;
    CHECK((!same || sim::complete(owed.last)));
  }
  CHECK(shared > 0);
}
