// SPDX-License-Identifier: MIT
// Corruptions of the core's state, planted one at a time. The next operation must stop at an
// assertion (CUSTASH_ASSERT), before any result is wrong. Each runs in a child process.
#include "tests/catch.hpp"
#include "tests/unit/checks_bed.hpp"

#include <csignal>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace custash;

namespace {

struct Planted {
  const char* name;
  const char* stops_at;  // part of the condition that fails
  void (*run)(bool corrupt);
};

const Planted kPlanted[] = {
    {"a block's size",
     "block.next->address == block.end()",
     [](bool corrupt) {
       ArenaBed bed;
       if (corrupt) bed.first->size += kAlignment;
       bed.free(bed.first);
     }},
    {"a free block's size",
     "block.previous->end() == block.address",
     [](bool corrupt) {
       ArenaBed bed;
       bed.free(bed.first);
       if (corrupt) bed.first->size -= kAlignment;
       bed.free(bed.second);
     }},
    {"a block's state: freed twice",
     "block->state == BlockState::Used",
     [](bool corrupt) {
       ArenaBed bed;
       if (corrupt) bed.first->state = BlockState::Free;
       bed.free(bed.first);
     }},
    {"a block in limbo",
     "block->buffer_id == 0",
     [](bool corrupt) {
       ArenaBed bed;
       bed.blocks.release(bed.first);
       bed.blocks.give_to_limbo(bed.first);
       if (corrupt) bed.first->buffer_id = 7;
       bed.blocks.drain(Position::end());
     }},
    {"a segment's mapped bytes",
     "block->size <= block->segment->mapped",
     [](bool corrupt) {
       ArenaBed bed;
       if (corrupt) bed.segment.mapped = 1_MiB;
       bed.free(bed.first);
     }},
    {"a segment's used blocks",
     "used.find(block->address) == block",
     [](bool corrupt) {
       ArenaBed bed;
       if (corrupt) bed.segment.used.clear();
       bed.free(bed.first);
     }},
    {"a slab's count of taken blocks",
     "(slab->taken + 1 == slab->count)",
     [](bool corrupt) {
       SlabBed bed;
       if (corrupt) bed.slab->taken = bed.slab->count - 1;
       (void)bed.slab_heap.take(kClass, kAnything);
     }},
    {"a slab's free block that is not free",
     "block.state == BlockState::Free",
     [](bool corrupt) {
       SlabBed bed;
       if (corrupt) bed.slab->blocks[bed.slab->first].state = BlockState::Used;
       (void)bed.slab_heap.take(kClass, kAnything);
     }},
    {"a slab's block given twice",
     "ref.block().state != BlockState::Free",
     [](bool corrupt) {
       SlabBed bed;
       const SmallRef ref = bed.slab_heap.take(kClass, kAnything);
       (void)bed.slab_heap.take(kClass, kAnything);
       if (corrupt) bed.slab_heap.give(ref, false);
       bed.slab_heap.give(ref, false);
     }},
    {"a depot's entry that has an owner",
     "all_ready(size_class, out, given)",
     [](bool corrupt) {
       SlabBed bed;
       Depot depot;
       const SmallRef ref = bed.slab_heap.take(kClass, kAnything);
       const StoredBlock put(ref);
       depot.put(kClass, &put, 1);
       if (corrupt) ref.block().buffer_id = 1;
       StoredBlock got;
       depot.take(kClass, &got, 1);
     }},
    {"a magazine's block that has an owner",
     "ref.kept_ready(size)",
     [](bool corrupt) {
       CacheBed bed;
       const Address a = bed.allocate(512);
       if (!bed.cache.free_fenced(*bed.mine, bed.pages->find(a), a)) std::_Exit(2);
       const PageOwner owner = bed.pages->find(a);
       if (corrupt) owner.slab->blocks[owner.slab->index_at(a)].buffer_id = 1;
       if (bed.cache.fast_path().allocate(*bed.mine, 512) != a) std::_Exit(2);
     }},
    {"a magazine's count",
     "magazine.holds_ready(",
     [](bool corrupt) {
       CacheBed bed;
       const Address a = bed.allocate(512);
       if (!bed.cache.free_fenced(*bed.mine, bed.pages->find(a), a)) std::_Exit(2);
       if (corrupt) bed.mine->magazine(SizeClass{}).count = Magazine::kBlocks + 1;
       (void)bed.cache.report().stats();
     }},
    {"a thread cache's large bytes",
     "block->size <= thread_cache.large_bytes",
     [](bool corrupt) {
       CacheBed bed;
       const Address a = bed.allocate(4_MiB);
       if (!bed.cache.free_fenced(*bed.mine, bed.pages->find(a), a)) std::_Exit(2);
       if (corrupt) bed.mine->large_bytes = 0;
       (void)bed.cache.report().stats();
     }},
    {"a page's owner in the page map",
     "core_.shared.pages.find(block->address).segment == block->segment",
     [](bool corrupt) {
       CacheBed bed;
       const Address a = bed.allocate(4_MiB);
       bed.free(a);
       if (corrupt) bed.pages->clear(a, a + kPageBytes);
       bed.cache.trim().ignore();
     }},
    {"the bytes that are held from the device",
     "bytes <= held_.load()",
     [](bool corrupt) {
       CacheBed bed;
       bed.free(bed.allocate(4_MiB));
       if (corrupt) (bed.budget.*open(HeldOf())).store(0);
       bed.cache.trim().ignore();
     }},
    {"a stream's calls under way",
     "stream_state.pending.load() != 0",
     [](bool corrupt) {
       CacheBed bed;
       StreamState stream_state(CU_STREAM_LEGACY);
       bed.cache.timeline().enter(stream_state);
       if (corrupt) stream_state.pending.store(0);
       bed.cache.timeline().leave(stream_state, Results::OnDevice);
     }},
    {"a stream's state: active, and not in the list",
     "std::count(active_.begin(), active_.end(), &stream_state)",
     [](bool corrupt) {
       OrderBed bed;
       if (corrupt) bed.stream_state.active.store(false);
       bed.work();
     }},
    {"a fence's position in the log",
     "fences_.front().covers > passed()",
     [](bool corrupt) {
       OrderBed bed;
       if (corrupt) (bed.fences.*open(FencesOf())).front().covers = {};
       bed.work();
       bed.fences.ensure({2}, FenceKind::Late).ignore();
     }},
    {"what is paid",
     "submissions_.counted(paid())",
     [](bool corrupt) {
       OrderBed bed;
       if (corrupt) (bed.debt.*open(PaidOf())).store(Position{9});
       bed.debt.take_debt({1});
     }},
    {"the count of open captures",
     "capturing()",
     [](bool corrupt) {
       CaptureGate gate;
       gate.capture_comes();
       gate.capture_begins();
       gate.capture_begun(true);
       if (corrupt) (gate.*open(CapturesOf())).store(0);
       gate.capture_ended();
     }},
    {"a host block's address",
     "block.previous != nullptr || block.segment->base == block.address",
     [](bool corrupt) {
       HostBed bed;
       bed.pool.put_in_limbo(bed.first, 0);
       if (corrupt) bed.first->address += kAlignment;
       bed.pool.drain(0, 0);
     }},
    {"a host block's neighbour",
     "block.next == nullptr || block.next->address == block.end()",
     [](bool corrupt) {
       HostBed bed;
       bed.pool.put_in_limbo(bed.second, 0);
       if (corrupt) bed.second->size -= kAlignment;
       bed.pool.drain(0, 0);
     }},
    {"a host block's state in limbo",
     "block->state == BlockState::InLimbo && block->size == size",
     [](bool corrupt) {
       HostBed bed;
       bed.pool.put_in_limbo(bed.first, 0);
       if (corrupt) bed.first->state = BlockState::Used;
       (void)bed.pool.take_recent(64_KiB, 0);
     }},
    {"a count of pinned memory",
     "sign > 0 || (blocks.current > 0 && bytes.current >= size)",
     [](bool corrupt) {
       HostBed bed;
       if (corrupt) bed.stats.in_use.current = 0;
       bed.pool.put_in_limbo(bed.first, 0);
     }},
};

struct Outcome {
  int status;
  std::string said;  // on stderr
};

Outcome run_alone(const Planted& planted, bool corrupt) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);  // Catch's would report it as its own failure
    dup2(ends[1], STDERR_FILENO);
    planted.run(corrupt);
    std::_Exit(0);
  }
  close(ends[1]);
  Outcome out{0, ""};
  char buffer[1024];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    out.said.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  REQUIRE(waitpid(child, &out.status, 0) == child);
  return out;
}

}  // namespace

TEST_CASE("each planted corruption stops the next operation at an assertion") {
  for (const Planted& planted : kPlanted) {
    INFO(planted.name);
    const Outcome sound = run_alone(planted, false);
    CHECK(sound.said.empty());
    CHECK((WIFEXITED(sound.status) && WEXITSTATUS(sound.status) == 0));
    const Outcome corrupt = run_alone(planted, true);
    INFO(corrupt.said);
    CHECK((WIFSIGNALED(corrupt.status) && WTERMSIG(corrupt.status) == SIGABRT));
    CHECK(corrupt.said.find(": assertion failed: ") != std::string::npos);
    CHECK(corrupt.said.find(planted.stops_at) != std::string::npos);
  }
}
