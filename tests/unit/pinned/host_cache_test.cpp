// SPDX-License-Identifier: MIT
// Hits, kinds of memory, what is told about buffers, error codes.
#include "pinned/host_pool.hpp"
#include "tests/unit/pinned/bed.hpp"

#include <array>

using namespace custash;

namespace {

constexpr Bytes kSizes[] = {1, 512, 5000, 100'000, 1_MiB, 1_MiB + 1, 3_MiB};
constexpr unsigned kMapped = CU_MEMHOSTALLOC_DEVICEMAP;

char* after(void* buffer, Bytes bytes) {
  return static_cast<char*>(buffer) + bytes;
}

}  // namespace

TEST_CASE("a buffer that comes back costs no driver call", "[host_cache]") {
  PinnedBed bed;
  for (const Bytes bytes : kSizes) {
    void* first = bed.host(bytes);
    bed.free_host(first);
    sim::clear_log();
    CHECK(bed.host(bytes) == first);
    CHECK(sim::count("cuMemHostAlloc") + sim::count("cuMemHostRegister_v2") +
              sim::count("cuEventQuery") ==
          0);
    bed.free_host(first);
    sim::clear_log();
    for (int i = 0; i < 3; ++i) {
      void* again = bed.pinned->try_allocate(bed.sim.context(), bytes, 0);
      CHECK(again == first);
      CHECK(bed.pinned->try_free(again));
    }
    CHECK(sim::count_all() == 0);
  }
}

TEST_CASE("what the fast path cannot answer it leaves alone", "[host_cache]") {
  PinnedBed bed;
  CHECK(bed.pinned->try_allocate(bed.sim.context(), 4096, 0) == nullptr);
  void* buffer = bed.host(4096);
  char own = 0;
  CHECK_FALSE(bed.pinned->try_free(&own));
  CHECK_FALSE(bed.pinned->try_free(after(buffer, 1)));
  bed.free_host(buffer);
  CHECK_FALSE(bed.pinned->try_free(buffer));
  CHECK(bed.host_stats().in_use.current == 0);
}

TEST_CASE("the fast path of a busy device records fences, and the buffer waits for them",
          "[host_cache]") {
  PinnedBed bed;
  void* buffer = bed.host(4096);
  bed.launch(bed.stream());
  CHECK(bed.pinned->try_free(buffer));
  CHECK_FALSE(bed.pinned->try_free(buffer));
  CHECK(bed.host(4096) != buffer);
  sim::run_all();
  bed.host_stats();
  CHECK(bed.host(4096) == buffer);
}

TEST_CASE("sizes and flags that are served", "[host_cache]") {
  PinnedBed bed;
  for (unsigned flags = 0; flags < 8; ++flags)
    CHECK(bed.pinned->serves(1, flags));
  CHECK_FALSE(bed.pinned->serves(0, 0));
  CHECK_FALSE(bed.pinned->serves(1, 8));
  CHECK_FALSE(bed.pinned->serves(1ULL << 50, 0));
  PinnedBed without({}, {.backing = Backing::Vmm, .pinned = false});
  CHECK_FALSE(without.pinned->serves(4096, 0));
}

TEST_CASE("kinds of memory never mix; mapped is no kind of its own", "[host_cache]") {
  for (const Bytes bytes : {4_MiB, 100_KiB}) {
    PinnedBed bed;
    std::array<void*, 8> freed{};
    for (unsigned flags = 0; flags < 8; ++flags) {
      if ((flags & kMapped) != 0) continue;
      freed[flags] = bed.host(bytes, flags);
      bed.free_host(freed[flags]);
    }
    for (unsigned flags = 0; flags < 8; ++flags) {
      void* again = bed.host(bytes, flags);
      CHECK(again == freed[flags & ~kMapped]);
      bed.free_host(again);
    }
  }
}

TEST_CASE("what is told of a buffer's flags", "[host_cache]") {
  PinnedBed bed;
  constexpr unsigned kTold[] = {2, 3, 2, 3, 6, 7, 6, 7};
  for (unsigned flags = 0; flags < 8; ++flags) {
    for (const Bytes bytes : kSizes) {
      HostBlockInfo info;
      void* buffer = bed.host(bytes, flags);
      REQUIRE(bed.pinned->find(at(buffer), &info) == Ownership::Live);
      CHECK(info.flags == kTold[flags]);
      CHECK(info.small == (bytes <= 1_MiB));
    }
  }
}

TEST_CASE("a live buffer is told of, from its first to its last byte", "[host_cache]") {
  PinnedBed bed;
  for (const Bytes bytes : kSizes) {
    void* buffer = bed.host(bytes);
    for (const Bytes offset : {Bytes{0}, bytes / 2, bytes - 1}) {
      HostBlockInfo info;
      REQUIRE(bed.pinned->find(at(buffer) + offset, &info) == Ownership::Live);
      CHECK(info.base == at(buffer));
      CHECK(info.requested == bytes);
    }
    if (HostRequest::rounded(bytes) != bytes)
      CHECK(bed.pinned->find(at(buffer) + bytes, nullptr) == Ownership::Cached);
    CHECK(bed.pinned->overlaps(at(buffer) + bytes - 1, 1));
    CHECK(bed.pinned->overlaps(at(buffer) - 8, 9));
    bed.free_host(buffer);
    CHECK(bed.pinned->find(at(buffer), nullptr) == Ownership::Cached);
  }
  char own = 0;
  CHECK(bed.pinned->find(at(&own), nullptr) == Ownership::Foreign);
  CHECK(bed.pinned->find(0, nullptr) == Ownership::Foreign);
  CHECK_FALSE(bed.pinned->overlaps(at(&own), 1));
}

TEST_CASE("every owner of a buffer has a number of its own", "[host_cache]") {
  PinnedBed bed;
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 5; ++i) {
    HostBlockInfo info;
    void* buffer = bed.host(4096);
    REQUIRE(bed.pinned->find(at(buffer), &info) == Ownership::Live);
    CHECK(std::find(seen.begin(), seen.end(), info.buffer_id) == seen.end());
    seen.push_back(info.buffer_id);
    bed.free_host(buffer);
  }
}

TEST_CASE("frees of what is not a live buffer", "[host_cache]") {
  PinnedBed bed;
  for (const bool behind_streams : {false, true}) {
    const auto free = [&](void* p) {
      return behind_streams ? bed.pinned->free_behind_streams(p) : bed.pinned->free(p);
    };
    void* buffer = bed.host(5000);
    void* theirs = nullptr;
    REQUIRE(cuMemAllocHost(&theirs, 5000) == CUDA_SUCCESS);
    CHECK(free(after(buffer, 1))->code() == CUDA_ERROR_INVALID_VALUE);
    CHECK(free(after(buffer, 6000))->code() == CUDA_ERROR_INVALID_VALUE);
    CHECK_FALSE(free(theirs).has_value());
    CHECK_FALSE(free(&buffer).has_value());
    CHECK(free(buffer)->ok());
    CHECK(free(buffer)->code() == CUDA_ERROR_INVALID_VALUE);
    CHECK(bed.pinned->record_stream(buffer, nullptr, NullStream::Legacy).code() ==
          CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("after a kernel's fault the driver answers", "[host_cache]") {
  PinnedBed bed;
  void* buffer = bed.host(4096);
  bed.launch(bed.stream(), {.accesses = {{8, 8, true}}});
  sim::run_all();
  CHECK(bed.pinned->free(buffer)->code() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(bed.pinned->free(buffer)->code() == CUDA_ERROR_INVALID_VALUE);
  void* out = &out;
  CHECK(bed.pinned->allocate(bed.sim.context(), 4096, 0, &out).code() ==
        CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(out == nullptr);
  CHECK(bed.pinned->try_allocate(bed.sim.context(), 4096, 0) == nullptr);
}

TEST_CASE("no memory: the driver's code, null, and nothing lost", "[host_cache]") {
  PinnedBed bed;
  sim::fail_symbol("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
  sim::fail_symbol("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
  for (const Bytes bytes : kSizes) {
    void* out = &out;
    CHECK(bed.pinned->allocate(bed.sim.context(), bytes, 0, &out).code() ==
          CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(out == nullptr);
  }
  sim::clear_failures();
  const HostStats stats = bed.host_stats();
  CHECK(stats.num_ooms == static_cast<std::int64_t>(std::size(kSizes)));
  CHECK(stats.allocated_bytes.current == 0);
  CHECK(sim::live_host_blocks() == 0);
  bed.free_host(bed.host(4096));
}
