// SPDX-License-Identifier: MIT
// How SleepStore makes pinned memory: by several threads, which touch beside the driver's
// registration; and what becomes of memory that cannot be had or pinned.
#include "pinned/sleep_store.hpp"

#include "allocator/sleep/sleep.hpp"
#include "allocator/sleep/standstill.hpp"
#include "tests/unit/contents.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

using namespace custash;

namespace {

constexpr Bytes kPiece = 40_MiB;

// What the workers do. One test at a time.
struct Seen {
  std::mutex mutex;
  std::map<Address, Address> touched;
  std::set<std::thread::id> threads;
  std::atomic<Address> cannot_touch{0};
  std::atomic<Address> cannot_pin{0};
  std::atomic<bool> cannot_touch_any{false};
  std::atomic<bool> cannot_pin_any{false};
  std::atomic<Address> late{0};  // is not touched before it is wanted
  std::atomic<bool> late_wanted{false};
  std::atomic<bool> registering_waits{false};
  std::atomic<bool> wrong{false};
};

Seen* seen = nullptr;

// Where a thread would wait for ever, the test fails in the end.
template <typename Condition>
void wait_for(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      seen->wrong = true;
      return;
    }
    std::this_thread::yield();
  }
}

std::size_t touches() {
  const std::lock_guard<std::mutex> lock(seen->mutex);
  return seen->touched.size();
}

bool touch(Address begin, Address end) {
  {
    const std::lock_guard<std::mutex> lock(seen->mutex);
    if (!seen->touched.emplace(begin, end).second) seen->wrong = true;
    seen->threads.insert(std::this_thread::get_id());
  }
  if (begin == seen->late.load()) {
    wait_for([] { return seen->late_wanted.load(); });
    if (*reinterpret_cast<const char*>(begin) != 0) seen->wrong = true;  // copied into before
  }
  if (seen->cannot_touch_any) return false;
  const Address cannot = seen->cannot_touch.load();
  return (cannot < begin || cannot >= end) && touch_range(begin, end);
}

// Bed's own check is for one thread.
void check_entries() {
  sim::set_entry_check([] {
    if (held_locks() != 0 && seen != nullptr) seen->wrong = true;
  });
}

const PinnedCalls kCalls{.touch = touch};

Driver driver_of(const sim::Sim& world) {
  static CUresult (*real)(void*, std::size_t, unsigned);
  Driver driver = world.driver();
  real = driver.mem_host_register;
  driver.mem_host_register = [](void* base, std::size_t bytes, unsigned flags) {
    if (seen->registering_waits.exchange(false)) {
      const std::size_t before = touches();
      wait_for([&] { return touches() > before; });
    }
    return seen->cannot_pin_any || reinterpret_cast<Address>(base) == seen->cannot_pin.load()
               ? CUDA_ERROR_NOT_PERMITTED
               : real(base, bytes, flags);
  };
  return driver;
}

Config pinned_config(unsigned threads) {
  Config config = Bed::vmm();
  config.sleep_pinned = 1_GiB;
  config.pinned_threads = threads;
  return config;
}

// Children of fork do not get it.
bool stays_here(const void* memory) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<Address>(memory);
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    Address from = 0;
    Address to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2)
      within = from <= at && at < to;
    if (within && line.starts_with("VmFlags:")) return line.find(" dc") != std::string::npos;
  }
  return false;
}

// Whether memory can be kept from children. QEMU's user mode only says that it is.
bool can_stay_here() {
  constexpr std::size_t kBytes = 4096;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool can = ::madvise(memory, kBytes, MADV_DONTFORK) == 0 && stays_here(memory);
  ::munmap(memory, kBytes);
  return can;
}

// A store that has made its first piece, and has reserved `count` others.
struct Pieces {
  explicit Pieces(std::size_t count, unsigned threads = 4)
      : config(pinned_config(threads)), driver(driver_of(bed.sim)), store(driver, config) {
    seen = &here;
    check_entries();
    store.set_pinned_calls(kCalls);
    take();
    CHECK(sim::live_host_blocks() == 1);
    while (all.size() <= count)
      take();
    CHECK(sim::live_host_blocks() == 1);
  }

  ~Pieces() {
    store.stop();
    for (const HostPiece& piece : all) {
      store.give(bed.sim.context(), piece);
      CHECK_FALSE(mapped(piece));
    }
    CHECK(sim::live_host_blocks() == 0);
    std::string why;
    config.sleep_memory = 0;
    CHECK(store.has_room(1_GiB, &why));  // all has been counted back
    CHECK_FALSE(here.wrong);
    seen = nullptr;
  }

  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  void take() {
    HostPiece piece;
    std::string why;
    REQUIRE(store.take(bed.sim.context(), kPiece, &piece, &why));
    REQUIRE(piece.size == kPiece);
    all.push_back(piece);
  }

  static bool mapped(const HostPiece& piece) { return msync(piece.at, 4_KiB, MS_ASYNC) == 0; }

  Address at(std::size_t i) { return reinterpret_cast<Address>(all[i].at); }

  bool make(std::string* why) {
    for (const HostPiece& piece : all)
      store.want(piece);
    bool made = store.make(why);
    for (const HostPiece& piece : all)
      made = made && store.wait(piece, why);
    store.stop();
    return made;
  }

  // Each byte of the pieces from the second on has been touched once.
  void check_touched() {
    Bytes sum = 0;
    for (const auto& [begin, end] : here.touched)
      sum += end - begin;
    CHECK(sum == (all.size() - 1) * kPiece);
    for (std::size_t i = 1; i < all.size(); ++i)
      CHECK(here.touched.count(at(i)) == 1);
  }

  Seen here;
  Config config;
  Bed bed;
  Driver driver;
  SleepStore store;
  std::vector<HostPiece> all;
};

// Blocks of 20 MiB in a process that sleeps in pinned memory. Its first piece is made.
struct Sleeper {
  Sleeper()
      : config(pinned_config(2)),
        driver(driver_of(bed.sim)),
        store(driver, config),
        sleep(*bed.allocator) {
    seen = &here;
    check_entries();
    store.set_pinned_calls(kCalls);
    sleep.set_store(store);
    grow();
    REQUIRE(sleep.go({}).asleep);
    check();
    CHECK(here.touched.empty());
    grow();
  }

  ~Sleeper() {
    check();
    for (const Address block : blocks)
      bed.free(block);
    CHECK_FALSE(here.wrong);
    seen = nullptr;
  }

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void grow() {
    blocks.push_back(bed.malloc(kBlock));
    bed.launch(nullptr, writes(blocks.back(), kBlock, static_cast<int>(blocks.size())));
    sim::run_all();
  }

  // Wakes the process.
  void check() {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::string read;
      bed.launch(nullptr, reads(blocks[i], kBlock, &read));
      sim::run_all();
      CHECK(has_contents(read, kBlock, static_cast<int>(i + 1)));
    }
    CHECK(sim::faults().empty());
  }

  static constexpr Bytes kBlock = 20_MiB;
  Seen here;
  Config config;
  Bed bed{with_bytes(1_GiB)};
  Driver driver;
  SleepStore store;
  Sleep sleep;
  std::vector<Address> blocks;
};

// Takes pieces of 4 MiB, of which the fifth is late.
struct LatePiece final : HostStore {
  explicit LatePiece(SleepStore& to) : to(to) {}

  bool has_room(Bytes bytes, std::string* why) override { return to.has_room(bytes, why); }

  bool take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) override {
    if (!to.take(context, std::min(bytes, 4_MiB), out, why)) return false;
    if (++taken == 5) seen->late = reinterpret_cast<Address>(out->at);
    return true;
  }

  void give(CUcontext context, const HostPiece& piece) override { to.give(context, piece); }

  void want(const HostPiece& piece) override { to.want(piece); }

  bool make(std::string* why) override { return to.make(why); }

  bool wait(const HostPiece& piece, std::string* why) override {
    if (reinterpret_cast<Address>(piece.at) == seen->late) {
      closed = sleep->state() == SleepState::GoingToSleep;
      if (late_cannot_be_touched) seen->cannot_touch = seen->late.load();
      seen->late_wanted = true;
    }
    return to.wait(piece, why);
  }

  void stop() override {
    closed_at_stop = sleep->state() == SleepState::GoingToSleep;
    seen->late_wanted = true;
    to.stop();
  }

  Bytes keeps() override { return to.keeps(); }

  SleepStore& to;
  Sleep* sleep = nullptr;
  int taken = 0;
  bool closed = false;          // the gate, when the late piece was wanted
  bool closed_at_stop = false;  // the program would wait for the workers
  bool late_cannot_be_touched = false;
};

}  // namespace

TEST_CASE("pieces are touched beside the registration of others", "[unit][sleep_store]") {
  Pieces it(4);
  it.here.registering_waits = true;  // until a further stripe is touched
  std::string why;
  CHECK(it.make(&why));
  it.check_touched();
  CHECK(sim::live_host_blocks() == 5);
  CHECK(sim::count("cuMemHostAlloc") == 0);
}

TEST_CASE("without further threads the caller makes all pieces", "[unit][sleep_store]") {
  Pieces it(3, 1);
  std::string why;
  CHECK(it.make(&why));
  it.check_touched();
  CHECK(it.here.threads == std::set{std::this_thread::get_id()});
  CHECK(sim::live_host_blocks() == 4);
  CHECK(it.make(&why));  // nothing is left to do
  it.check_touched();
}

TEST_CASE("a piece that the driver does not pin is pageable, up to sleep_memory",
          "[unit][sleep_store]") {
  Pieces it(3);
  it.config.sleep_memory = kPiece - 2_MiB;
  it.here.cannot_pin = it.at(2);
  std::string why;
  CHECK_FALSE(it.make(&why));
  CHECK(why ==
        "host memory: the driver does not pin 40 MiB, and sleep_memory: has no room for them");
  it.config.sleep_memory = kPiece;
  it.here.touched.clear();
  CHECK(it.make(&why));
  CHECK(it.here.touched.count(it.at(2)) == 1);
  CHECK(sim::live_host_blocks() == 3);
  it.config.sleep_memory = 2 * kPiece;
  HostPiece more;
  REQUIRE(it.store.take(it.bed.sim.context(), 1_GiB, &more, &why));
  CHECK(more.size == 1_GiB - 3 * kPiece);  // pinned memory that the piece has left free
  it.store.give(it.bed.sim.context(), more);
}

TEST_CASE("a piece that the system has no memory for is tried again", "[unit][sleep_store]") {
  Pieces it(3);
  it.here.cannot_touch = it.at(2) + kPiece - 1;
  std::string why;
  CHECK_FALSE(it.make(&why));
  CHECK(why == "host memory: needs 40 MiB, and the system refuses it");
  CHECK(sim::live_host_blocks() < 4);
  it.here.cannot_touch = 0;
  it.here.touched.clear();
  CHECK(it.make(&why));
  CHECK(sim::live_host_blocks() == 4);
}

TEST_CASE("a piece that nobody wanted before is made by who waits for it",
          "[unit][sleep_store]") {
  Pieces it(2);
  std::string why;
  CHECK(it.store.wait(it.all[2], &why));
  CHECK(sim::live_host_blocks() == 2);
  CHECK(it.make(&why));
  CHECK(it.here.touched.count(it.at(2)) == 1);
  CHECK(sim::live_host_blocks() == 3);
}

TEST_CASE("a device that registers nothing gives its own pinned memory",
          "[unit][sleep_store]") {
  Seen here;
  seen = &here;
  const Bed bed;
  Driver driver = bed.sim.driver();
  driver.mem_host_register = [](void*, std::size_t, unsigned) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  const Config config = pinned_config(4);
  SleepStore store(driver, config);
  store.set_pinned_calls(kCalls);
  std::vector<HostPiece> all(3);
  std::string why;
  for (HostPiece& piece : all) {
    REQUIRE(store.take(bed.sim.context(), kPiece, &piece, &why));
    store.want(piece);
  }
  CHECK(store.make(&why));
  CHECK(touches() == 0);
  CHECK(sim::count("cuMemHostAlloc") == 3);
  CHECK(sim::live_host_blocks() == 3);
  CHECK_FALSE(stays_here(all[0].at));  // the driver's memory is left as it is
  for (const HostPiece& piece : all)
    store.give(bed.sim.context(), piece);
  CHECK(sim::live_host_blocks() == 0);
}

TEST_CASE("pinned memory grows with a process that sleeps again and again",
          "[unit][sleep_store]") {
  Sleeper it;
  for (std::size_t i = 2; i < 5; ++i) {
    const SleepAnswer answer = it.sleep.go({});
    INFO(answer.text);
    REQUIRE(answer.asleep);
    CHECK(sim::live_host_blocks() == i);
    it.check();
    it.grow();
  }
}

TEST_CASE("copies are released while the host is short of memory", "[unit][sleep_store]") {
  Sleeper it;
  static Bytes available = 0;
  PinnedCalls calls = kCalls;
  calls.available = [] { return available; };
  it.store.set_pinned_calls(calls);
  available = 4_GiB;
  REQUIRE(it.sleep.go({}).asleep);
  it.check();
  const std::size_t kept = sim::live_host_blocks();
  CHECK(kept > 0);
  it.sleep.give_up_copies();
  CHECK(sim::live_host_blocks() == kept);
  available = 900_MiB;
  it.bed.launch(nullptr, {.needs_flag = 1});  // it works
  it.sleep.give_up_copies();
  CHECK(sim::live_host_blocks() == kept);
  sim::set_flag(1);
  sim::run_all();
  it.sleep.give_up_copies();
  CHECK(sim::live_host_blocks() == 0);
  // Contents that sleep stay, also if they went between two looks, and are released at waking.
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(sim::live_host_blocks() > 0);
  it.sleep.give_up_copies();
  shrink_saved(it.bed.allocator->state());
  CHECK(sim::live_host_blocks() > 0);
  it.check();
  CHECK(sim::live_host_blocks() == 0);
}

TEST_CASE("many contexts sleep at the first request, and keep no more than sleep_pinned",
          "[unit][sleep_store]") {
  constexpr Bytes kBytes = 20_MiB;
  constexpr Bytes kPinned = 3 * kBytes;
  constexpr int kContexts = 6;
  Seen here;
  seen = &here;
  Bed bed(with_bytes(1_GiB));
  const Driver driver = driver_of(bed.sim);
  Config config = pinned_config(1);
  config.sleep_pinned = kPinned;
  SleepStore store(driver, config);
  store.set_pinned_calls(kCalls);
  Sleep sleep(*bed.allocator);
  sleep.set_store(store);
  std::vector<Address> blocks;
  for (int i = 0; i < kContexts; ++i) {
    REQUIRE(bed.allocator->allocate(make_context(), kBytes, &blocks.emplace_back()).ok());
    bed.launch(nullptr, writes(blocks.back(), kBytes, i));
    sim::run_all();
  }
  const SleepAnswer answer = sleep.go({});
  INFO(answer.text);
  REQUIRE(answer.asleep);
  for (int i = 0; i < kContexts; ++i) {
    std::string read;
    bed.launch(nullptr, reads(blocks[static_cast<std::size_t>(i)], kBytes, &read));
    sim::run_all();
    CHECK(has_contents(read, kBytes, i));
  }
  std::string why;
  config.sleep_memory = kPinned;  // nothing of it is taken, and all pinned memory is
  CHECK(store.has_room(kPinned, &why));
  CHECK_FALSE(store.has_room(kPinned + 2_MiB, &why));
  for (const Address block : blocks)
    bed.free(block);
  CHECK_FALSE(here.wrong);
  seen = nullptr;
}

TEST_CASE("children do not get the memory of contents", "[unit][sleep_store]") {
  if (!can_stay_here()) {
    WARN("skipped: children get memory that madvise keeps from them (QEMU)");
    return;
  }
  Pieces it(2);
  it.config.sleep_pinned = 0;
  it.take();  // in pageable memory
  for (const HostPiece& piece : it.all)
    CHECK(stays_here(piece.at));
  it.config.sleep_pinned = 1_GiB;
}

TEST_CASE("a sleep whose memory cannot be had or pinned loses nothing", "[unit][sleep_store]") {
  Sleeper it;
  it.config.sleep_memory = 0;
  it.here.cannot_touch_any = true;
  const SleepAnswer out = it.sleep.go({});
  CHECK_FALSE(out.asleep);
  CHECK(says(out, "and the system refuses it"));
  it.check();
  it.here.cannot_touch_any = false;
  it.here.cannot_pin_any = true;
  it.here.touched.clear();
  const SleepAnswer refused = it.sleep.go({});
  CHECK_FALSE(refused.asleep);
  CHECK(says(refused, "the driver does not pin"));
  it.check();
  it.config.sleep_memory = 1_GiB;
  it.here.touched.clear();
  const SleepAnswer pageable = it.sleep.go({});
  INFO(pageable.text);
  CHECK(pageable.asleep);
  CHECK(sim::live_host_blocks() == 1);
}

TEST_CASE("contents are copied while later pieces are made, and into none before it is made",
          "[unit][sleep_store]") {
  Sleeper it;
  LatePiece late(it.store);
  late.sleep = &it.sleep;
  it.sleep.set_store(late);
  const SleepAnswer answer = it.sleep.go({});
  INFO(answer.text);
  REQUIRE(answer.asleep);
  CHECK(late.taken >= 5);
  CHECK(late.closed);
  CHECK_FALSE(it.here.wrong);
  it.check();
}

TEST_CASE("a piece that cannot be made behind the closed gate opens it, and nothing is lost",
          "[unit][sleep_store]") {
  Sleeper it;
  LatePiece late(it.store);
  late.sleep = &it.sleep;
  late.late_cannot_be_touched = true;
  it.sleep.set_store(late);
  const SleepAnswer refused = it.sleep.go({});
  CHECK_FALSE(refused.asleep);
  CHECK(late.closed);
  CHECK_FALSE(late.closed_at_stop);
  CHECK(says(refused, "and the system refuses it"));
  CHECK(it.sleep.state() == SleepState::Awake);
  it.check();
  it.here.cannot_touch = 0;
  it.here.late = 0;
  it.here.touched.clear();
  late.late_cannot_be_touched = false;
  const SleepAnswer answer = it.sleep.go({});
  INFO(answer.text);
  CHECK(answer.asleep);
  it.check();
}
