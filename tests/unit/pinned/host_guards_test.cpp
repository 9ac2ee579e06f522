// SPDX-License-Identifier: MIT
// Guarded pinned buffers: where the host faults, what is found beside them, and when their
// pages lose their access and go.
#include "interpose/check/host_guards.hpp"

#include "pinned/first_touch.hpp"
#include "tests/unit/guards_bed.hpp"
#include "tests/unit/pinned/bed.hpp"

#include <cstring>
#include <set>
#include <vector>

#include <unistd.h>

using namespace custash;

namespace {

std::vector<SlackWrite> told;

Config telling(GuardChoice choice = {.one_in = 1}) {
  told.clear();
  choice.report = [](const SlackWrite& what) noexcept { told.push_back(what); };
  return guarding(choice);
}

// Whether the host may read the byte; asked without reading it here.
bool readable(Address address) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const bool done = write(ends[1], pointer(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return done;
}

bool guarded(PinnedBed& bed, const void* buffer) {
  HostBlockInfo info;
  return bed.pinned->find(at(buffer), &info) == Ownership::Live && info.guarded;
}

void poke(Address address) {
  *reinterpret_cast<volatile unsigned char*>(address) = 1;
}

}  // namespace

TEST_CASE("a guarded buffer lies between pages without access", "[host_guards]") {
  PinnedBed bed({}, telling());
  const Bytes page = host_pages::page();
  for (const Bytes bytes :
       {Bytes{1}, Bytes{512}, Bytes{1000}, page, page + 1, 3 * page, 1_MiB}) {
    CAPTURE(bytes);
    bool ended = false;
    for (int i = 0; i < 2; ++i) {
      auto* buffer = static_cast<char*>(bed.host(bytes));
      CHECK(guarded(bed, buffer));
      std::memset(buffer, 1, bytes);
      const Address begin = align_down(at(buffer), page);
      const Address end = align_up(at(buffer) + bytes, page);
      CHECK(at(buffer) % 512 == 0);
      CHECK(readable(begin));
      CHECK(readable(end - 1));
      CHECK_FALSE(readable(begin - 1));
      CHECK_FALSE(readable(end));
      ended = ended || end - at(buffer) - bytes < 512;
      CHECK((bytes < page || begin == at(buffer)));
      bed.free_host(buffer);
      CHECK_FALSE(readable(at(buffer)));
    }
    CHECK((ended || bytes % page != 0));
  }
  CHECK(told.empty());
  CHECK(bed.host_stats().num_guarded == 14);
  CHECK(sim::faults().empty());
}

TEST_CASE("the access stays until the work is over", "[host_guards]") {
  PinnedBed bed({}, telling());
  const CUstream stream = bed.stream();
  const Address device = bed.malloc(1000);
  void* buffer = bed.host(1000);
  std::memset(buffer, 7, 1000);
  bed.copy_from(buffer, stream, device, 1000);
  bed.free_host(buffer);
  CHECK(readable(at(buffer)));
  sim::run_all();
  CHECK(bed.host_stats().active_requests.current == 0);
  CHECK_FALSE(readable(at(buffer)));
  bed.free(device);
  CHECK(sim::faults().empty());
}

TEST_CASE("a free on an idle device takes the access at once", "[host_guards]") {
  PinnedBed bed({.advance = sim::Advance::Timed}, telling());
  const CUstream stream = bed.stream();
  const Address device = bed.malloc(1000);
  void* buffer = bed.host(1000);
  std::memset(buffer, 7, 1000);
  bed.copy_from(buffer, stream, device, 1000);
  sim::run_all();
  bed.free_host(buffer);
  CHECK_FALSE(readable(at(buffer)));
  bed.free(device);
}

TEST_CASE("a wait after the work takes the access", "[host_guards]") {
  PinnedBed bed({}, telling());
  const CUstream stream = bed.stream();
  const Address device = bed.malloc(1000);
  void* buffer = bed.host(1000);
  void* other = bed.host(1000);
  bed.pinned->sampler()->waited();
  std::memset(buffer, 7, 1000);
  bed.copy_from(buffer, stream, device, 1000);
  bed.free_host(buffer);
  bed.pinned->sampler()->waited();
  CHECK(readable(at(buffer)));
  sim::run_all();
  bed.pinned->sampler()->waited();
  CHECK_FALSE(readable(at(buffer)));
  CHECK(readable(at(other)));
  const auto calls = sim::count_all();
  bed.pinned->sampler()->waited();
  CHECK(sim::count_all() == calls);  // nobody waits
  bed.free_host(other);
  bed.free(device);
}

TEST_CASE("a byte written beside a buffer is found", "[host_guards]") {
  PinnedBed bed({}, telling());
  void* const ended = bed.host(1000);  // this one ends its page, the next one begins its
  void* const begun = bed.host(1000);
  poke(at(ended) - 3);
  poke(at(begun) + 1000 + 4);
  bed.free_host(ended);
  bed.free_host(begun);
  REQUIRE(told.size() == 2);
  CHECK((told[0].address == at(ended) && !told[0].past && told[0].distance == 3));
  CHECK((told[1].address == at(begun) && told[1].past && told[1].distance == 5));
  CHECK(told[0].bytes == 1000);
  CHECK(bed.host_stats().num_overwritten == 2);
}

TEST_CASE("buffers in use are looked at, too", "[host_guards]") {
  PinnedBed bed({}, telling());
  void* const buffer = bed.host(1000);
  bed.pinned->sampler()->check_all();
  CHECK(told.empty());
  poke(at(buffer) + 1000);
  bed.pinned->sampler()->check_all();
  CHECK(told.size() == 1);
  bed.free_host(buffer);
}

TEST_CASE("a freed buffer is not handed out again, and no more than a few rest",
          "[host_guards]") {
  PinnedBed bed({}, telling());
  constexpr Bytes kEach = 8_MiB;
  std::vector<Address> freed;
  for (int i = 0; i < 20; ++i) {
    void* const buffer = bed.host(kEach);
    if (!freed.empty()) CHECK(freed.back() != at(buffer));
    bed.free_host(buffer);
    freed.push_back(at(buffer));
    CHECK_FALSE(readable(at(buffer)));
    CHECK(bed.pinned->guards(at(buffer)));
  }
  const auto held = static_cast<Bytes>(bed.host_stats().allocated_bytes.current);
  CHECK(held >= 32_MiB);
  CHECK(held <= 72_MiB);
  CHECK(bed.pinned->reclaim().empty().ok());
  CHECK(bed.host_stats().allocated_bytes.current == 0);
}

TEST_CASE("small guarded buffers leave the program its mappings", "[host_guards]") {
  PinnedBed bed({}, telling());
  for (int i = 0; i < 3000; ++i) {
    bed.free_host(bed.host(100));
    if (i % 100 == 0) CHECK(bed.host_stats().allocations.current <= 1025);
  }
  CHECK(bed.host_stats().num_unguarded == 0);
  CHECK(bed.pinned->reclaim().empty().ok());
  std::vector<void*> buffers;
  for (int i = 0; i < 8200; ++i)
    buffers.push_back(bed.host(100));
  CHECK(bed.host_stats().num_unguarded == 8);
  for (void* each : buffers)
    bed.free_host(each);
}

TEST_CASE("the guards' own addresses are known as such", "[host_guards]") {
  PinnedBed bed({}, telling());
  void* const buffer = bed.host(1000);
  const Address begin = align_down(at(buffer), host_pages::page());
  CHECK(bed.pinned->guards(begin - 1));
  CHECK(bed.pinned->guards(begin + host_pages::page()));
  CHECK_FALSE(bed.pinned->guards(begin - host_pages::page() - 1));
  CHECK_FALSE(bed.pinned->guards(begin + 2 * host_pages::page()));
  bed.free_host(buffer);
}

TEST_CASE("an allocation never fails for the guard's sake", "[host_guards]") {
  SECTION("at the limit") {
    Config config = telling();
    config.pinned_limit = 4_MiB;
    PinnedBed bed({}, config);
    std::vector<void*> buffers;
    for (int i = 0; i < 4; ++i)
      buffers.push_back(bed.host(1_MiB));
    bed.free_host(buffers.back());
    buffers.back() = bed.host(1_MiB);  // what rests goes first
    CHECK(bed.host_stats().num_ooms == 0);
    for (void* each : buffers)
      bed.free_host(each);
  }
  SECTION("where host memory cannot be registered") {
    PinnedBed bed({.registration = false}, telling());
    void* const buffer = bed.host(1000);
    CHECK_FALSE(guarded(bed, buffer));
    CHECK(bed.host_stats().num_unguarded == 1);
    bed.free_host(buffer);
  }
  SECTION("with write combining, which registered memory has not") {
    PinnedBed bed({}, telling());
    void* const buffer = bed.host(1000, CU_MEMHOSTALLOC_WRITECOMBINED);
    CHECK_FALSE(guarded(bed, buffer));
    bed.free_host(buffer);
  }
}

TEST_CASE("the statistics tell what guarded buffers hold", "[host_guards]") {
  PinnedBed bed({}, telling({.one_in = 1, .least = 1000}));
  bed.free_host(bed.host(999));
  CHECK(bed.host_stats().guard_bytes == 0);
  CHECK(bed.host_stats().guard_time_ns == 0);
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  void* const small = bed.host(1000);
  void* const large = bed.host(static_cast<Bytes>(page) + 1);
  CHECK(bed.host_stats().guard_bytes == 3 * page);
  CHECK(bed.host_stats().guard_resting_bytes == 0);
  CHECK(bed.host_stats().guard_time_ns > 0);
  bed.free_host(large);
  CHECK(bed.host_stats().guard_bytes == 3 * page);
  CHECK(bed.host_stats().guard_resting_bytes > page);
  bed.free_host(small);
}

TEST_CASE("sizes, and one in so many", "[host_guards]") {
  SECTION("sizes") {
    PinnedBed bed({}, telling({.one_in = 1, .least = 1000, .most = 2000}));
    for (const auto& [bytes, wanted] :
         {std::pair<Bytes, bool>{999, false}, {1000, true}, {2000, true}, {2001, false}}) {
      void* const buffer = bed.host(bytes);
      CHECK(guarded(bed, buffer) == wanted);
      bed.free_host(buffer);
    }
  }
  SECTION("one in four") {
    PinnedBed bed({}, telling({.one_in = 4}));
    constexpr int kAll = 400;
    for (int i = 0; i < kAll; ++i)
      bed.free_host(bed.host(1000));
    const auto stats = bed.host_stats();
    CHECK(stats.num_guarded > kAll / 8);
    CHECK(stats.num_guarded < kAll / 2);
  }
}

TEST_CASE("the seed chooses the buffers", "[host_guards]") {
  const auto first = [](std::uint32_t seed) {
    PinnedBed bed({}, telling({.one_in = 10, .seed = seed}));
    int count = 0;
    for (; bed.host_stats().num_guarded == 0; ++count)
      bed.free_host(bed.host(1000));
    return count;
  };
  std::set<int> firsts;
  for (std::uint32_t seed = 1; seed <= 10; ++seed)
    firsts.insert(first(seed));
  CHECK(firsts.size() > 3);
}

TEST_CASE("a fill shows what nobody wrote", "[host_guards]") {
  Config config = telling();
  config.guard.fill = true;
  PinnedBed bed({}, config);
  const auto* const buffer = static_cast<const unsigned char*>(bed.host(1000));
  CHECK(buffer[0] == 255);
  CHECK(buffer[999] == 255);
  bed.free_host(const_cast<unsigned char*>(buffer));
  CHECK(told.empty());
}

TEST_CASE("a buffer is freed behind the streams that were named", "[host_guards]") {
  PinnedBed bed({}, telling());
  const CUstream stream = bed.stream();
  void* const buffer = bed.host(1000);
  bed.launch(stream);
  bed.name_stream(buffer, stream);
  bed.release(buffer);
  CHECK(readable(at(buffer)));
  sim::run_all();
  bed.pinned->sampler()->waited();
  CHECK_FALSE(readable(at(buffer)));
}
