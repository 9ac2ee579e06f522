// SPDX-License-Identifier: MIT
// Every counter of pinned memory, by the name that PyTorch gives it, through a life of buffers.
#include "tests/unit/pinned/bed.hpp"

#include <map>
#include <string>

using namespace custash;

namespace {

using Values = std::map<std::string, std::int64_t>;

Values values(PinnedBed& bed) {
  Values out;
  for (const auto& [name, value] : bed.host_stats().flatten()) {
    CHECK(out.count(name) == 0);
    out[name] = value;
  }
  return out;
}

// current, peak, allocated, freed
void check(const Values& all,
           const std::string& name,
           const std::array<std::int64_t, 4>& wanted) {
  INFO(name);
  const std::array<std::int64_t, 4> seen{all.at(name + ".current"),
                                         all.at(name + ".peak"),
                                         all.at(name + ".allocated"),
                                         all.at(name + ".freed")};
  CHECK(seen == wanted);
}

}  // namespace

TEST_CASE("the keys are PyTorch's, in its order, ours after them", "[host_stats]") {
  std::vector<std::string> wanted;
  for (const char* stat :
       {"allocations", "allocated_bytes", "active_requests", "active_bytes"}) {
    for (const char* part : {"current", "peak", "allocated", "freed"})
      wanted.push_back(std::string(stat) + "." + part);
  }
  wanted.insert(wanted.end(), {"num_host_alloc", "num_host_free"});
  for (const char* stat : {"host_alloc_time", "host_free_time"}) {
    for (const char* part : {"total", "max", "min", "count", "avg"})
      wanted.push_back(std::string(stat) + "." + part);
  }
  const auto flat = HostStats().flatten();
  REQUIRE(flat.size() > wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(flat[i].first == wanted[i]);
}

TEST_CASE("counters through a life of buffers", "[host_stats]") {
  PinnedBed bed;
  constexpr std::int64_t kLarge = 3 << 20;
  constexpr std::int64_t kAsked = kLarge - 100;
  constexpr std::int64_t kSegment = 2 << 20;
  const CUstream s = bed.stream();

  void* a = bed.host(kAsked);
  void* b = bed.host(kAsked);
  void* c = bed.host(5000);
  Values all = values(bed);
  check(all, "allocations", {3, 3, 3, 0});
  check(all,
        "allocated_bytes",
        {2 * kLarge + kSegment, 2 * kLarge + kSegment, 2 * kLarge + kSegment, 0});
  check(all, "active_requests", {3, 3, 3, 0});
  check(all, "active_bytes", {2 * kLarge + 8192, 2 * kLarge + 8192, 2 * kLarge + 8192, 0});
  check(all, "in_use", {3, 3, 3, 0});
  check(all, "in_use_bytes", {2 * kLarge + 8192, 2 * kLarge + 8192, 2 * kLarge + 8192, 0});
  check(all, "requested_bytes", {2 * kAsked + 5000, 2 * kAsked + 5000, 2 * kAsked + 5000, 0});
  CHECK(all["num_host_alloc"] == 3);
  CHECK(all["num_host_free"] == 0);
  CHECK(all["host_alloc_time.count"] == 3);
  CHECK(all["host_alloc_time.total"] > 0);

  // In flight it is active, but nobody's.
  bed.copy_from(a, s, sim::make_block(kAsked), kAsked);
  bed.free_host(a);
  all = values(bed);
  check(all, "in_use", {2, 3, 3, 1});
  check(all, "in_use_bytes", {kLarge + 8192, 2 * kLarge + 8192, 2 * kLarge + 8192, kLarge});
  check(all, "requested_bytes", {kAsked + 5000, 2 * kAsked + 5000, 2 * kAsked + 5000, kAsked});
  check(all, "active_requests", {3, 3, 3, 0});
  sim::run_all();
  all = values(bed);
  check(all, "active_requests", {2, 3, 3, 1});
  check(all, "active_bytes", {kLarge + 8192, 2 * kLarge + 8192, 2 * kLarge + 8192, kLarge});
  check(all, "allocations", {3, 3, 3, 0});

  bed.pinned->reset_peak_stats();
  all = values(bed);
  check(all, "in_use", {2, 2, 3, 1});
  check(all, "requested_bytes", {kAsked + 5000, kAsked + 5000, 2 * kAsked + 5000, kAsked});

  // A hit takes no memory.
  CHECK(bed.host(kLarge) == a);
  CHECK(values(bed)["num_host_alloc"] == 3);
  bed.free_host(a);
  bed.free_host(b);
  bed.free_host(c);
  REQUIRE(bed.pinned->reclaim().empty().ok());
  all = values(bed);
  check(all, "allocations", {0, 3, 3, 3});
  check(all,
        "allocated_bytes",
        {0, 2 * kLarge + kSegment, 2 * kLarge + kSegment, 2 * kLarge + kSegment});
  check(all, "active_requests", {0, 3, 4, 4});
  check(all, "in_use", {0, 3, 4, 4});
  CHECK(all["num_host_free"] == 3);
  CHECK(all["host_free_time.count"] == 3);
  for (const char* name : {"num_waits", "num_retries", "num_ooms"})
    CHECK(all[name] == 0);
}

TEST_CASE("durations are told in microseconds", "[host_stats]") {
  DurationStat stat;
  for (const Nanoseconds elapsed : {5'000'999, 2'000'000, 9'000'000})
    stat.add(elapsed);
  CHECK(stat.total == 16'000);
  CHECK(stat.max == 9'000);
  CHECK(stat.min == 2'000);
  CHECK(stat.count == 3);
}
