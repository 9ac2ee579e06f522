// SPDX-License-Identifier: MIT
// Processes that sleep in the pinned memory of a SleepStore: while its pieces are made, when
// they cannot be, and what is kept. The simulator holds real bytes here.
#include "allocator/sleep/sleep.hpp"
#include "allocator/sleep/standstill.hpp"
#include "tests/unit/sleep_store_bed.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace custash;

namespace {

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
    bed.free_all(blocks);
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
      CHECK(holds(bed, blocks[i], kBlock, static_cast<int>(i + 1)));
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

TEST_CASE("pinned memory grows with a process that sleeps again and again", "[sleep_pinned]") {
  Sleeper it;
  for (std::size_t i = 2; i < 5; ++i) {
    fall_asleep(it.sleep);
    CHECK(sim::live_host_blocks() == i);
    it.check();
    it.grow();
  }
}

TEST_CASE("copies are released while the host is short of memory", "[sleep_pinned]") {
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
          "[sleep_pinned]") {
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
  fall_asleep(sleep);
  for (int i = 0; i < kContexts; ++i) {
    CHECK(holds(bed, blocks[static_cast<std::size_t>(i)], kBytes, i));
  }
  std::string why;
  config.sleep_memory = kPinned;  // nothing of it is taken, and all pinned memory is
  CHECK(store.has_room(kPinned, &why));
  CHECK_FALSE(store.has_room(kPinned + 2_MiB, &why));
  bed.free_all(blocks);
  CHECK_FALSE(here.wrong);
  seen = nullptr;
}

TEST_CASE("a sleep whose memory cannot be had or pinned loses nothing", "[sleep_pinned]") {
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
          "[sleep_pinned]") {
  Sleeper it;
  LatePiece late(it.store);
  late.sleep = &it.sleep;
  it.sleep.set_store(late);
  fall_asleep(it.sleep);
  CHECK(late.taken >= 5);
  CHECK(late.closed);
  CHECK_FALSE(it.here.wrong);
  it.check();
}

TEST_CASE("a piece that cannot be made behind the closed gate opens it, and nothing is lost",
          "[sleep_pinned]") {
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
