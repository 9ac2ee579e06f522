// SPDX-License-Identifier: MIT
// Ordering rules that no random program and no other test would miss, one test each: memory
// that graphs, slabs, moved pages, peers and other threads hand on.
#include "allocator/heap/size_policy.hpp"
#include "allocator/memory_limits.hpp"
#include "allocator/peer_processes.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <atomic>
#include <functional>

using namespace custash;

namespace {

constexpr Bytes kBytes = 64_MiB;

// Whether a kernel on `stream` that writes there ends while `busy` is held.
bool runs_beside(Bed& bed, CUstream stream, CUstream busy, Address p, Bytes bytes) {
  sim::hold(busy);
  const sim::OpId op = bed.launch(stream, {.accesses = {{p, bytes, true}}});
  sim::run_all();
  const bool ended = sim::complete(op);
  let_go(busy);
  return ended;
}

// A graph of one kernel that writes a block which was allocated during its capture.
struct Graph {
  explicit Graph(Bed& bed) : bed(bed), stream(bed.stream()) {
    bed.malloc(kBytes);  // so that there is a cache
    begin_capture(bed, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    block = bed.malloc(kBytes);
    bed.launch(stream, {.accesses = {{block, kBytes, true}}});
    graph = end_capture(bed, stream);
    exec = instantiate(bed, graph);
  }

  void destroy_template() { custash::destroy(bed, cuGraphDestroy, graph); }

  void destroy() { custash::destroy(bed, cuGraphExecDestroy, exec); }

  Bed& bed;
  CUstream stream;
  Address block = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
};

// Runs once, at the entry into the driver call of that number from now.
std::function<void()> at_entry;
std::atomic<int> entries_left{0};

void count_entries() {
  entries_with_lock_held += held_locks();
  if (entries_left.load() != 0 && entries_left.fetch_sub(1) == 1) at_entry();
}

}  // namespace

TEST_CASE("a block of a capture is nobody's while a graph may use it", "[rules_memory]") {
  Bed bed;
  Graph of(bed);
  bed.free(of.block);
  CHECK(bed.malloc(kBytes) != of.block);
  of.destroy_template();
  CHECK(bed.malloc(kBytes) != of.block);
  sim::hold(of.stream);
  bed.launch_graph(of.stream, of.exec);
  of.destroy();
  // Only launches that are under way keep it from its next owner.
  CHECK(bed.malloc(kBytes) != of.block);
  let_go(of.stream);
  bed.allocator->empty_all_caches();
  CHECK(bed.stats().active_bytes[0].current == bed.stats().allocated_bytes[0].current);
}

TEST_CASE("a graph has no memory that its stream's work still uses", "[rules_memory]") {
  for (const Bytes bytes : {Bytes{1000}, kBytes}) {
    Bed bed;
    const CUstream s = bed.stream();
    const Address p = bed.malloc_on(s, bytes);
    bed.launch(s, {.accesses = {{p, bytes, true}}});
    sim::hold(s);
    bed.free_on(s, p);
    begin_capture(bed, s, CU_STREAM_CAPTURE_MODE_RELAXED);
    // The graph may be launched on any stream, whatever the order of this one says.
    CHECK(bed.malloc_on(s, bytes) != p);
    (void)end_capture(bed, s);
    CHECK(bed.malloc_on(s, bytes) == p);
    let_go(s);
  }
}

TEST_CASE("a block that a capture has freed is nobody's before it ends", "[rules_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  bed.malloc(kBytes);
  begin_capture(bed, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  CHECK(bed.malloc(kBytes) != p);
  (void)end_capture(bed, s);
  CHECK(bed.malloc(kBytes) != p);
}

TEST_CASE("a slab's page waits for what its blocks waited for", "[rules_memory]") {
  Bed bed({}, {.backing = Backing::Vmm, .thread_caches = false, .slabs_after = 0});
  const CUstream s = bed.stream();
  const CUstream t = bed.stream();
  constexpr Bytes kSmall = 1_MiB;
  std::vector<Address> first;
  for (int i = 0; i < 4; ++i)  // two slabs
    first.push_back(bed.malloc(kSmall));
  for (const Address p : first)
    bed.launch(s, {.accesses = {{p, kSmall, true}}});
  bed.free_all(first);
  // Of the two one page is given up, and cut for another class.
  const Address q = bed.malloc(kSmall / 2);
  const auto its_page = [&](Address p) { return p / kPageBytes == q / kPageBytes; };
  REQUIRE(std::any_of(first.begin(), first.end(), its_page));
  CHECK_FALSE(runs_beside(bed, t, s, q, kSmall / 2));
}

TEST_CASE("moved pages are not written before their last owner's kernel has ended",
          "[rules_memory]") {
  Bed bed({.device_memory = 128_GiB});  // so much that handles are of 32 MiB
  constexpr Bytes kPiece = 32_MiB;
  const auto [s, t] = bed.streams<2>();
  const auto all = bed.blocks(16, kPiece);
  bed.free(all.back());  // to where pages are moved
  for (std::size_t i = 1; i < 15; i += 2)
    bed.launch(s, {.accesses = {{all[i], kPiece, true}}});
  for (std::size_t i = 1; i < 15; i += 2)
    bed.free(all[i]);
  const Address p = bed.malloc(8 * kPiece);
  REQUIRE(bed.stats().num_pages_moved == 7);
  CHECK_FALSE(runs_beside(bed, t, s, p, 8 * kPiece));
}

TEST_CASE("pages made while a peer comes are the peer's, too", "[rules_memory]") {
  for (int calls = 1; calls <= 8; ++calls) {
    Bed bed;
    const CUcontext second = make_context(1);
    REQUIRE(cuCtxEnablePeerAccess(bed.sim.context(), 0) == CUDA_SUCCESS);
    const CUstream there = bed.stream();
    bed.malloc_in(second, 1000);
    use(bed.sim.context());
    bed.malloc(1000);
    at_entry = [&] { bed.allocator->peer_access_enabled(bed.sim.context(), second); };
    entries_left = calls;
    sim::set_entry_check(count_entries);
    const Address p = bed.malloc(kBytes);
    sim::set_entry_check(nullptr);
    if (entries_left.exchange(0) > 0) break;  // no call is left to come before
    use(second);
    bed.launch(there, {.accesses = {{p, kBytes, true}}});
    CHECK(runs_without_faults());
    use(bed.sim.context());
  }
}

TEST_CASE("a peer that pays for nothing finds nothing owed", "[rules_memory]") {
  for (const Bytes bytes : {kBytes, Bytes{1000}}) {
    Bed bed;
    CUcontext last = nullptr;
    for (int i = 0; i < 17; ++i) {  // one more than a stream keeps apart
      last = make_context(1);
      bed.malloc_in(last, 1000);
      use(bed.sim.context());
      bed.enable_peer(bed.sim.context(), last);
    }
    use(last);
    const CUstream there = bed.stream();
    const auto allocate = [&] {
      use(last);
      return bed.malloc_in(last, bytes);
    };
    const Address p = allocate();
    const sim::OpId late = bed.launch(there, {.accesses = {{p, bytes, true}}});
    bed.free(p);
    const bool again = allocate() == p;
    CHECK((!again || sim::complete(late)));
  }
}

TEST_CASE("a block that another process has closed waits for work here", "[rules_memory]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(kBytes);
  const ExportedBlock block = pin(bed, p);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  PeerProcesses(*bed.allocator).unpin(block);
  constexpr Bytes kOther = kBytes / 4;  // kBytes get pages of their own from now on
  const Address q = bed.malloc(kOther);
  CHECK((q != p || !runs_beside(bed, t, s, q, kOther)));
}

TEST_CASE("what one stream has freed is not taken by another's hit", "[rules_memory]") {
  Bed bed({.device_memory = 64_GiB}, {.backing = Backing::Vmm, .slabs_after = 0});
  constexpr Bytes kSmall = 1000;
  const auto [s, t] = bed.streams<2>();
  bed.allocator->limits().budget(0).set_limit(
      512_MiB);  // nearly full: all streams share one pool, for good
  bed.malloc(kBytes);
  bed.free_on(s, bed.malloc_on(s, kSmall));
  bed.free_on(t, bed.malloc_on(t, kSmall));
  bed.allocator->limits().budget(0).set_limit(~0ULL);
  bed.malloc(2 * kBytes);  // looks again
  std::vector<Address> blocks(64);
  for (Address& p : blocks)
    p = bed.malloc_on(s, kSmall);
  bed.launch(t);
  for (const Address p : blocks)
    bed.launch(s, {.accesses = {{p, kSmall, true}}});
  for (const Address p : blocks)
    bed.free_on(s, p);
  for (int i = 0; i < 40; ++i) {
    const Address q = bed.malloc_on(t, kSmall);
    const bool of_s = std::find(blocks.begin(), blocks.end(), q) != blocks.end();
    CHECK((!of_s || !runs_beside(bed, t, s, q, kSmall)));
  }
}

TEST_CASE("a request waits for memory that was freed in a stream's order", "[rules_memory]") {
  Bed bed({.device_memory = 256_MiB});
  const CUstream s = bed.stream();
  const Address p = bed.malloc_on(s, 160_MiB);
  bed.launch(s, {.accesses = {{p, 160_MiB, true}}});
  bed.free_on(s, p);
  bed.free(bed.malloc(160_MiB));
}

TEST_CASE("freed neighbours of two streams are neither stream's", "[rules_memory]") {
  Bed bed({.device_memory = 512_MiB});  // nearly full: all streams share one pool
  constexpr Bytes kSmall = 256_KiB;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc_on(s, kSmall);
  const Address q = bed.malloc_on(t, kSmall);
  REQUIRE(q == p + kSmall);
  bed.launch(s, {.accesses = {{p, kSmall, true}}});
  const sim::OpId last = bed.launch(t, {.accesses = {{q, kSmall, true}}});
  bed.free_on(s, p);
  bed.free_on(t, q);
  // Either it has other memory or it was made to wait.
  CHECK((bed.malloc_on(s, 2 * kSmall) != p || sim::complete(last)));
}

TEST_CASE("a destroyed stream's memory is not that of the next stream with its state",
          "[rules_memory]") {
  Bed bed;
  const CUstream s = bed.stream(CU_STREAM_DEFAULT);
  const Address p = bed.malloc_on(s, kBytes);
  bed.launch(s);
  for (int i = 0; i < 2; ++i) {  // a fence, and what has become of it: the stream is idle
    bed.allocator->empty_all_caches();
    sim::run_all();
  }
  bed.allocator->empty_all_caches();
  bed.launch(CU_STREAM_LEGACY, {.accesses = {{p, kBytes, true}}});
  bed.free_on(s, p);  // behind that, as `s` is a blocking stream
  bed.end_stream(s);
  const CUstream t = bed.stream();
  const Address q = bed.malloc_on(t, kBytes);
  CHECK((q != p || !runs_beside(bed, t, CU_STREAM_LEGACY, q, kBytes)));
}

TEST_CASE("what an ended thread left for others is not that of the next stream with its state",
          "[rules_memory]") {
  Bed bed({}, {.backing = Backing::Vmm, .slabs_after = 0});
  constexpr Bytes kSmall = 1000;
  constexpr auto kOwn = NullStream::PerThread;
  std::vector<Address> blocks(17);  // one more than a thread keeps
  on_other_thread(bed, [&] {
    for (Address& p : blocks)
      (void)bed.allocator->allocate_on(bed.sim.context(), nullptr, kOwn, kSmall, &p);
    bed.launch_per_thread();
    for (int i = 0; i < 3; ++i) {  // its own work is over, and known to be
      bed.allocator->empty_all_caches();
      sim::run_all();
    }
    bed.launch(CU_STREAM_LEGACY, {.accesses = {{blocks.front(), kSmall, true}}});
    for (const Address p : blocks)  // behind that, as the thread's own stream is a blocking one
      (void)bed.allocator->free_on(p, nullptr, kOwn);
    // It has the newer ones again; the older ones lie ready for other threads.
    for (int i = 0; i < 9; ++i) {
      Address again = 0;
      (void)bed.allocator->allocate_on(bed.sim.context(), nullptr, kOwn, kSmall, &again);
    }
  });
  const CUstream t = bed.stream();
  for (int i = 0; i < 40; ++i) {
    const Address q = bed.malloc_on(t, kSmall);
    CHECK((q != blocks.front() || !runs_beside(bed, t, CU_STREAM_LEGACY, q, kSmall)));
  }
}

TEST_CASE("a hit takes no block in debt once a second stream works", "[rules_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes / 4);
  bed.free(p);
  REQUIRE(bed.malloc(kBytes / 4) == p);
  bed.launch(s, {.accesses = {{p, kBytes / 4, true}}});
  bed.free(p);
  bed.launch(bed.stream());
  CHECK(bed.malloc(kBytes / 4) != p);  // there is other memory
}

TEST_CASE("a fence recorded after the free is waited for by no stream", "[rules_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  sim::fail_symbol("cuCtxRecordEvent", 1, CUDA_ERROR_UNKNOWN, true);
  bed.free(p);
  sim::clear_failures();
  // Two kernels that need each other, with allocations in between.
  bed.launch(bed.stream(), {.needs_flag = 1});
  const Address q = bed.malloc(kBytes);
  bed.launch(bed.stream(), {.accesses = {{q, kBytes, true}}, .sets_flag = 1});
  sim::run_all();
  CHECK(sim::pending() == 0);
}

TEST_CASE("a page is not given back while it is mapped at an old address", "[rules_memory]") {
  Bed bed({.device_memory = 128_GiB});
  constexpr Bytes kPiece = 32_MiB;
  const CUstream s = bed.stream();
  const auto all = bed.blocks(16, kPiece);
  for (std::size_t i = 1; i < all.size(); i += 2)
    bed.launch(s, {.accesses = {{all[i], kPiece, true}}});
  for (std::size_t i = 1; i < all.size(); i += 2)
    bed.free(all[i]);
  const Address p = bed.malloc(8 * kPiece);
  REQUIRE(bed.stats().num_pages_moved == 7);
  sim::run_all();
  bed.free(p);
  // The old addresses cannot be unmapped now, and the pages are free at the new ones.
  sim::fail_symbol("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  bed.allocator->empty_all_caches();
  sim::clear_failures();
  CHECK(sim::count("cuMemRelease") <= 1);
  bed.allocator->empty_all_caches();
}
