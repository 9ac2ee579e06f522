// SPDX-License-Identifier: MIT
// How SleepStore makes pinned memory: by several threads, which touch beside the driver's
// registration; and what becomes of memory that cannot be had or pinned.
#include "tests/unit/sleep_store_bed.hpp"

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

using namespace custash;

namespace {

constexpr Bytes kPiece = 40_MiB;

// Children of fork do not get it.
bool stays_here(const void* memory) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<Address>(memory);
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    Address from = 0;
    Address to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) within = from <= at && at < to;
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

}  // namespace

TEST_CASE("pieces are touched beside the registration of others", "[sleep_store]") {
  Pieces it(4);
  it.here.registering_waits = true;  // until a further stripe is touched
  std::string why;
  CHECK(it.make(&why));
  it.check_touched();
  CHECK(sim::live_host_blocks() == 5);
  CHECK(sim::count("cuMemHostAlloc") == 0);
}

TEST_CASE("without further threads the caller makes all pieces", "[sleep_store]") {
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
          "[sleep_store]") {
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

TEST_CASE("a piece that the system has no memory for is tried again", "[sleep_store]") {
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

TEST_CASE("a piece that nobody wanted before is made by who waits for it", "[sleep_store]") {
  Pieces it(2);
  std::string why;
  CHECK(it.store.wait(it.all[2], &why));
  CHECK(sim::live_host_blocks() == 2);
  CHECK(it.make(&why));
  CHECK(it.here.touched.count(it.at(2)) == 1);
  CHECK(sim::live_host_blocks() == 3);
}

TEST_CASE("a device that registers nothing gives its own pinned memory", "[sleep_store]") {
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

TEST_CASE("children do not get the memory of contents", "[sleep_store]") {
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
