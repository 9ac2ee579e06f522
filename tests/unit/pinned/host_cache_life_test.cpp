// SPDX-License-Identifier: MIT
// Contexts that end with buffers live and in flight.
#include "tests/unit/pinned/bed.hpp"

#include <atomic>
#include <cerrno>
#include <thread>

#include <sys/mman.h>

using namespace custash;

namespace {

constexpr Bytes kBytes = 3_MiB;

struct LifeBed : PinnedBed {
  // As interpose/hooks/lifetime.cpp does it.
  void destroy(CUcontext context) {
    pinned->context_destroyed(context);
    allocator->context_destroyed(context);
    REQUIRE(cuCtxDestroy(context) == CUDA_SUCCESS);
    allocator->context_gone(context);
    pinned->reclaim().context_gone(context);
  }
};

bool is_mapped(void* page) {
  return msync(page, 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

void check_nothing_held(LifeBed& bed) {
  const HostStats stats = bed.host_stats();
  for (const auto& [name, value] : stats.flatten()) {
    INFO(name);
    if (name.find(".current") != std::string::npos) CHECK(value == 0);
  }
  CHECK(sim::live_host_blocks() == 0);
}

}  // namespace

TEST_CASE("buffers end with their context, whatever state they are in", "[host_cache_life]") {
  LifeBed bed;
  const CUcontext context = make_context();
  const CUstream s = bed.stream();
  void* live = bed.host(kBytes);
  void* small = bed.host(512);
  void* flying = bed.host(kBytes);
  void* named = bed.host(kBytes);
  void* named_live = bed.host(kBytes);
  void* idle = bed.host(kBytes);
  const Address to = sim::make_block(kBytes);
  bed.copy_from(flying, s, to, kBytes);
  bed.copy_from(named, s, to, kBytes);
  bed.name_stream(named, s);
  bed.name_stream(named_live, s);
  bed.free_host(flying);
  bed.release(named);
  bed.free_host(idle);
  CHECK(is_mapped(live));
  bed.destroy(context);
  CHECK_FALSE(is_mapped(live));
  for (void* buffer : {live, small, flying, named, named_live, idle}) {
    CHECK(bed.pinned->find(reinterpret_cast<Address>(buffer), nullptr) == Ownership::Foreign);
    CHECK_FALSE(bed.pinned->free(buffer).has_value());
  }
  use(bed.sim.context());
  check_nothing_held(bed);
  bed.free_host(bed.host(kBytes));
  CHECK(bed.pinned->validate());
}

TEST_CASE("a context ends after the work of others with its buffers", "[host_cache_life]") {
  for (const bool named : {false, true}) {
    LifeBed bed;
    const CUstream other = bed.stream();
    const Address to = sim::make_block(kBytes);
    const CUcontext context = make_context();
    void* buffer = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
    use(bed.sim.context());
    const auto copy = bed.copy_from(buffer, other, to, kBytes);
    if (named) bed.name_stream(buffer, other);
    bed.release(buffer);
    CHECK_FALSE(sim::complete(copy));
    bed.destroy(context);
    CHECK(sim::complete(copy));
    check_nothing_held(bed);
  }
}

TEST_CASE("the end of another context frees what waited for its work", "[host_cache_life]") {
  for (const bool named : {false, true}) {
    LifeBed bed;
    void* buffer = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
    const CUcontext context = make_context();
    const CUstream s = bed.stream();
    bed.copy_from(buffer, s, sim::make_block(kBytes), kBytes);
    if (named) bed.name_stream(buffer, s);
    use(bed.sim.context());
    bed.release(buffer);
    bed.destroy(context);
    CHECK(bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE) == buffer);
  }
}

TEST_CASE("buffers of several contexts are apart", "[host_cache_life]") {
  LifeBed bed;
  void* first = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
  bed.free_host(first);
  const CUcontext context = make_context();
  void* second = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
  CHECK(second != first);
  use(bed.sim.context());
  bed.free_host(second);  // a free in whichever context
  CHECK(bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE) == first);
  bed.destroy(context);
}

// Another thread may end a context at any moment of an allocation that looks at its buffers.
TEST_CASE("a context ends in the middle of an allocation elsewhere", "[host_cache_life]") {
  static LifeBed* bed = nullptr;
  static CUcontext ending = nullptr;
  static std::atomic<int> entries_left{0};
  static std::thread ender;
  static std::atomic<bool> ended{false};
  for (int at = 1; ending == nullptr; ++at) {
    LifeBed here;
    bed = &here;
    ending = make_context();
    const CUstream s = here.stream();
    // Mapped and registered only now and then: that takes time.
    const unsigned kind = at % 8 < 2 ? 0 : CU_MEMHOSTALLOC_WRITECOMBINED;
    void* buffers[] = {
        here.host(kBytes, kind), here.host(kBytes, kind), here.host(kBytes, kind)};
    for (void* buffer : buffers)
      here.copy_from(buffer, s, sim::make_block(kBytes), kBytes);
    here.name_stream(buffers[0], s);
    for (void* buffer : buffers)
      here.release(buffer);
    use(here.sim.context());
    if (at % 2 == 0) sim::run_all();
    sim::fail_symbol("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
    sim::fail_symbol("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    ended = false;
    entries_left = at;
    sim::set_entry_check([] {
      if (entries_left == 0 || --entries_left != 0) return;
      ender = std::thread([context = std::exchange(ending, nullptr)] {
        bed->destroy(context);
        ended = true;
      });
      // It may have to wait until a segment of its context has been returned.
      for (int i = 0; i < 1000 && !ended; ++i)
        std::this_thread::yield();
    });
    void* out = nullptr;
    const Status status = here.pinned->allocate(here.sim.context(), kBytes, kind, &out);
    if (ender.joinable()) ender.join();
    sim::set_entry_check(nullptr);
    sim::clear_failures();
    INFO("at entry " << at);
    // Without memory to give back, the failure is what is told.
    CHECK((status.ok() || status.code() == CUDA_ERROR_OUT_OF_MEMORY));
    CHECK(here.pinned->validate());
    if (out != nullptr) here.free_host(out);
    const bool was_last = ending != nullptr;
    if (was_last) here.destroy(ending);
    CHECK(here.pinned->reclaim().empty().ok());
    check_nothing_held(here);
    if (was_last) break;
  }
  CHECK(ending != nullptr);
}
