// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
#include "tools/command/compare/counters.hpp"

#include <string>

namespace {

using namespace custash::compare;

// A busy program without a reason for advice, of one second.
Observed busy() {
  Observed seen;
  seen.wall = 1;
  seen.served.processes = 1;
  seen.served.allocations = 1000;
  seen.served.frees = 1000;
  seen.served.pinned_allocations = 100;
  seen.served.pinned_frees = 100;
  return seen;
}

bool only_names(const Observed& seen, const std::string& option) {
  const auto advice = advice_for(seen);
  return advice.size() == 1 &&
         advice[0].find("try --conf " + option + ".") != std::string::npos;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("without a reason there is no advice") {
  CHECK(advice_for(busy()).empty());
}

TEST_CASE("each option is named for its counter alone") {
  Observed seen = busy();
  seen.served.free_waits = 100;
  CHECK(only_names(seen, "free:parameters"));
  CHECK(has(advice_for(seen)[0], "100 of 1,000 frees waited"));
  seen = busy();
  seen.served.debt_waits = 100;
  CHECK(only_names(seen, "run_ahead:50"));
  seen = busy();
  seen.served.ooms = 1;
  CHECK(only_names(seen, "run_ahead:0"));
  seen = busy();
  seen.served.retries = 1;
  CHECK(only_names(seen, "run_ahead:0"));
  seen = busy();
  seen.served.device_frees = 100;
  CHECK(only_names(seen, "decay:0"));
  seen = busy();
  seen.served.pinned_returns = 20;
  CHECK(only_names(seen, "pinned_decay:0"));
}

TEST_CASE("rare events are no reason") {
  Observed seen = busy();
  seen.served.free_waits = seen.served.debt_waits = seen.served.device_frees = 99;
  seen.served.pinned_returns = 9;
  CHECK(advice_for(seen).empty());
  seen.served.allocations = seen.served.frees = 20;  // a larger share, of next to nothing
  seen.served.free_waits = seen.served.debt_waits = seen.served.device_frees = 19;
  CHECK(advice_for(seen).empty());
}

TEST_CASE("more memory is put down to streams only where they share it") {
  Observed seen = busy();
  seen.memory_without = 100;
  seen.memory_with = 120;
  CHECK(advice_for(seen).empty());
  seen.served.debt_waits = 1;
  CHECK(only_names(seen, "run_ahead:0"));
  seen.memory_with = 109;
  CHECK(advice_for(seen).empty());
}

TEST_CASE("waits and more memory make one advice") {
  Observed seen = busy();
  seen.memory_without = 100;
  seen.memory_with = 120;
  seen.served.debt_waits = 100;
  const auto advice = advice_for(seen);
  CHECK(advice.size() == 1);
  CHECK(has(advice[0], "try --conf run_ahead:50. With run_ahead:0 they wait more"));
}

TEST_CASE("without counters no reason is named") {
  Observed seen = busy();
  seen.served.unknown = 1;
  CHECK(why_no_gain(seen) ==
        "Counters are missing, so custash cannot say why nothing is gained.");
}

TEST_CASE("memory that came back since the device was full is no reason for decay") {
  Observed seen = busy();
  seen.served.device_frees = 100;
  seen.served.retries = 1;
  CHECK(only_names(seen, "run_ahead:0"));
}

TEST_CASE("the reason for no gain is the first that the counters show") {
  Observed seen = busy();
  CHECK(why_no_gain(seen).empty());
  seen.served.processes = 0;
  CHECK(has(why_no_gain(seen), "No process reported the use of CUDA"));
  seen = busy();
  seen.served = {};
  seen.served.processes = 1;
  CHECK(has(why_no_gain(seen), "asked for no memory"));
  seen = busy();
  seen.served.allocations = seen.served.frees = 4;
  seen.served.pinned_allocations = seen.served.pinned_frees = 0;
  CHECK(has(why_no_gain(seen), "few calls for memory: 8 calls."));
}

TEST_CASE("measured time in the driver is a reason before the number of calls") {
  Observed seen = busy();
  seen.uncached = Served{};
  seen.uncached->plain_calls = 2000;
  seen.uncached->plain_time = 5'000'000;
  CHECK(why_no_gain(seen) ==
        "The driver's own cudaMalloc and cudaFree take only 0.5 % of the wall time.");
  seen.uncached->plain_time = 20'000'000;
  CHECK(why_no_gain(seen).empty());
}
