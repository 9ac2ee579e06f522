// SPDX-License-Identifier: MIT
// A device that is full beside kernels that need a later one: an allocation waits for nothing
// that could need what comes after it, or gives up. And frees on streams of other contexts.
#include "allocator/peer_processes.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr int kFlag = 1;
constexpr Nanoseconds kSecond = 1'000'000'000;

Config plain() {
  return {.backing = Backing::Driver};
}

// A kernel on a stream of its own that ends when end_pair() has launched another one.
CUstream begin_pair(Bed& bed) {
  const CUstream t = bed.stream();
  bed.launch(t, {.needs_flag = kFlag});
  return t;
}

void end_pair(Bed& bed, CUstream first) {
  CHECK_FALSE(sim::complete(sim::last_op(first)));
  bed.launch(bed.stream(), {.sets_flag = kFlag});
  sim::run_all();
  CHECK(sim::complete(sim::last_op(first)));
  CHECK(sim::pending() == 0);
  CHECK_FALSE(sim::hung());
}

}  // namespace

TEST_CASE("under pressure only work before a free on a stream is waited for", "[pressure]") {
  for (const Backing backing : {Backing::Vmm, Backing::Driver}) {
    Bed bed({.device_memory = 512_MiB}, {.backing = backing});
    const CUstream s = bed.stream();
    const Address p = bed.malloc_on(s, 300_MiB);
    bed.launch(s, {.accesses = {{p, 300_MiB, true}}});  // one stream alone works
    bed.free_on(s, p);
    const CUstream t = begin_pair(bed);
    const Nanoseconds before = sim::now();
    const Address q = bed.malloc(300_MiB);
    CHECK(sim::now() - before < kSecond);
    const auto late = [&] { bed.launch(bed.stream(), {.accesses = {{q, 300_MiB, true}}}); };
    late();
    end_pair(bed, t);
    CHECK(sim::faults().empty());
  }
}

TEST_CASE("under pressure a stream's own wait for a later kernel is given up", "[pressure]") {
  Bed bed({.device_memory = 512_MiB});
  const CUstream s = bed.stream();
  const Address p = bed.malloc_on(s, 300_MiB);
  bed.launch(s, {.needs_flag = kFlag});
  bed.free_on(s, p);
  Address q = 0;
  for (const bool first : {true, false}) {
    const Nanoseconds before = sim::now();
    CHECK(bed.fails_for_memory(300_MiB));
    const Nanoseconds took = sim::now() - before;
    // Nothing has ended since: the next does not wait once more.
    CHECK((first ? took >= 10 * kSecond && took < 12 * kSecond : took < kSecond));
  }
  end_pair(bed, s);
  CHECK(bed.try_malloc(300_MiB, &q).ok());
}

TEST_CASE("under pressure small blocks freed on a stream are waited for, but not for ever",
          "[pressure]") {
  for (const bool hopeless : {false, true}) {
    Bed bed({.device_memory = 256_MiB}, {.backing = Backing::Vmm, .thread_caches = false});
    const CUstream s = bed.stream();
    constexpr Bytes kSmall = 1_MiB;
    std::vector<Address> blocks;
    for (int i = 0; i < 200; ++i)
      blocks.push_back(bed.malloc_on(s, kSmall));
    bed.launch(s, {.accesses = {{blocks.front(), kSmall, true}}});
    for (const Address p : blocks)
      bed.free_on(s, p);
    CUstream t = nullptr;
    if (hopeless) t = begin_pair(bed);
    Address q = 0;
    CHECK(bed.try_malloc(128_MiB, &q).ok() != hopeless);
    if (hopeless) end_pair(bed, t);
    CHECK_FALSE(sim::hung());
  }
}

TEST_CASE("plain memory is not given back while a kernel runs that needs a later one",
          "[pressure]") {
  Bed bed({.device_memory = 512_MiB}, plain());
  bed.free(bed.malloc(300_MiB));
  const CUstream t = begin_pair(bed);
  const auto frees = sim::count("cuMemFree_v2");
  Address q = 0;
  CHECK(bed.fails_for_memory(400_MiB));
  CHECK(sim::count("cuMemFree_v2") == frees);
  // What fits into what is cached needs none of that.
  const Address r = bed.malloc(300_MiB);
  end_pair(bed, t);
  bed.free(r);
  CHECK(bed.try_malloc(400_MiB, &q).ok());
}

TEST_CASE("plain memory is given back when the device has got through its work", "[pressure]") {
  Bed bed({.device_memory = 512_MiB, .advance = sim::Advance::Timed}, plain());
  const auto [s, t] = bed.streams<2>();
  const auto blocks = bed.blocks(5, 4_MiB);
  bed.free(bed.malloc(300_MiB));
  // Longer than its patience in all, shorter from one free to the next. The last of them is
  // younger than any free.
  for (const Address p : blocks) {
    bed.free(p);
    bed.launch(s, {.duration = 4 * kSecond});
    bed.launch(t, {.duration = 4 * kSecond});
  }
  const Nanoseconds before = sim::now();
  bed.malloc(400_MiB);
  CHECK(sim::now() - before >= 20 * kSecond);
  CHECK(sim::pending() == 0);
}

TEST_CASE("other contexts of the device are asked before plain memory is given back",
          "[pressure]") {
  Bed bed({.device_memory = 512_MiB}, plain());
  bed.free(bed.malloc(300_MiB));
  const CUcontext second = make_context(0);
  bed.malloc_in(second, 1000);
  const CUstream t = begin_pair(bed);
  use(bed.sim.context());
  Address q = 0;
  CHECK(bed.fails_for_memory(400_MiB));
  use(second);
  end_pair(bed, t);
  use(bed.sim.context());
  CHECK(bed.try_malloc(400_MiB, &q).ok());
}

TEST_CASE("what other processes ask for is given while the device is idle", "[pressure]") {
  Bed bed({.device_memory = 512_MiB}, plain());
  bed.free(bed.malloc(300_MiB));
  const CUstream t = begin_pair(bed);
  PeerProcesses outside(*bed.allocator);
  CHECK(outside.give_back(0, 300_MiB) == 0);
  end_pair(bed, t);
  CHECK(outside.give_back(0, 300_MiB) == 0);  // an event recorded just now is not over at once
  sim::run_all();
  CHECK(outside.give_back(0, 300_MiB) >= 300_MiB);
}

TEST_CASE("a free on another context's stream waits for nothing", "[pressure]") {
  for (const CUdevice device : {0, 1}) {
    for (const Bytes bytes : {64_MiB, Bytes{1000}}) {
      Bed bed({.device_memory = 1_GiB});
      const Address p = bed.malloc(bytes);
      const CUcontext second = make_context(device);
      const CUstream there = bed.stream();
      if (device != 0) bed.enable_peer(second, bed.sim.context());
      bed.launch(there, {.needs_flag = kFlag});
      const sim::OpId last = bed.launch(there, {.accesses = {{p, bytes, true}}});
      bed.free_on(there, p);
      CHECK_FALSE(sim::complete(last));
      CHECK_FALSE(sim::hung());
      use(bed.sim.context());
      for (int i = 0; i < 3; ++i)
        CHECK(bed.malloc(bytes) != p);
      use(second);
      end_pair(bed, there);
      use(bed.sim.context());
      CHECK_FALSE(bed.allocator->free(p)->ok());  // once is enough
      const auto active = [&] { return bed.stats().active_bytes[0].current; };
      const auto held = active();
      bed.allocator->empty_all_caches();  // asks
      CHECK(active() < held);
      CHECK(active() == bed.stats().allocated_bytes[0].current);
    }
  }
}

TEST_CASE("memory freed on another context's stream is had again when that is over",
          "[pressure]") {
  Bed bed({.device_memory = 512_MiB});
  const Address p = bed.malloc(300_MiB);
  (void)make_context(1);
  const CUstream there = bed.stream();
  bed.launch(there);
  bed.free_on(there, p);
  use(bed.sim.context());
  bed.free(bed.malloc(300_MiB));  // waits for it
  CHECK(sim::complete(sim::last_op(there)));
}

TEST_CASE("a context that ends lets go of memory freed on its streams", "[pressure]") {
  Bed bed({.device_memory = 512_MiB});
  const Address p = bed.malloc(300_MiB);
  const CUcontext second = make_context(1);
  const CUstream there = bed.stream();
  bed.launch(there);
  bed.free_on(there, p);
  bed.end_context(second);
  use(bed.sim.context());
  bed.malloc(300_MiB);
}

// A plain allocation takes no memory whose free on a stream comes after the first kernel:
// without custash, it gets other memory there, and the kernels meet.
TEST_CASE("plain memory between kernels that need each other waits for no free on a stream",
          "[pressure]") {
  for (const unsigned kernels : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    for (const bool ordered : {false, true}) {
      for (const Bytes bytes : {Bytes{4096}, 600_KiB, 8_MiB}) {
        for (const int where : {0, 1, 2}) {
          Bed bed;
          const CUstream first = bed.stream(kernels);
          const CUstream second = bed.stream();
          const CUstream third = bed.stream(CU_STREAM_DEFAULT);
          const CUstream on = where == 0 ? nullptr : where == 1 ? first : third;
          bed.launch(first);
          bed.launch(second);
          bed.launch(third);
          sim::run_all();
          const Address p = ordered ? bed.malloc_on(on, bytes) : bed.malloc(bytes);
          bed.launch(on, {.accesses = {{p, bytes, true}}});
          sim::run_all();
          bed.launch(first, {.needs_flag = kFlag});
          bed.free_on(on, p);
          const Address q = bed.malloc(bytes);
          bed.launch(second, {.accesses = {{q, bytes, true}}, .sets_flag = kFlag});
          sim::run_all();
          INFO("kernels " << kernels << " ordered " << ordered << " bytes " << bytes << " on "
                          << where << " same " << (p == q));
          CHECK_FALSE(sim::hung());
          CHECK(sim::pending() == 0);
          bed.free(q);
        }
      }
    }
  }
}
