// SPDX-License-Identifier: MIT
// What fits on a device without a cache fits with one: random programs on the smallest
// simulated device that bare CUDA needs for them, where each request is a cuMemAlloc and each
// free waits.
#include "tests/catch.hpp"
#include "tools/replay/questions.hpp"

#include <cstdlib>
#include <random>

namespace custash::replay {
namespace {

// A few dozen blocks at once of all sizes up to 2 to 256 MiB, on no stream and on three.
Trace random_program(unsigned seed) {
  std::mt19937 random(seed);
  const unsigned largest = 21 + random() % 8;
  const std::size_t most = 10 + random() % 40;
  const unsigned streams = random() % 4;
  std::string text;
  std::vector<std::pair<int, Bytes>> live;
  const auto event = [&](char op, const std::pair<int, Bytes>& block) {
    const unsigned stream = random() % (streams + 1);
    text += std::string("0 0 ") + op + ' ' + std::to_string(block.first) + ' ' +
            std::to_string(block.second) + ' ' + (stream == 0 ? "-" : std::to_string(stream)) +
            '\n';
  };
  for (int next = 1; next < 300;) {
    if (live.size() > most || (!live.empty() && random() % 2 == 0)) {
      const std::size_t at = random() % live.size();
      event('f', live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      // One draw a statement: the operands of an expression are evaluated in no fixed order.
      const unsigned bits = 6 + random() % (largest - 5);
      live.emplace_back(next++, 1 + random() % (Bytes{1} << bits));
      event('a', live.back());
    }
  }
  return parse_trace("t", text);
}

unsigned number(const char* variable, unsigned otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : static_cast<unsigned>(std::atol(given));
}

}  // namespace

// CUSTASH_PROGRAMS, CUSTASH_SEED: how many, from which on.
TEST_CASE("what fits bare fits through custash", "[capacity]") {
  const unsigned first = number("CUSTASH_SEED", 1);
  const unsigned programs = number("CUSTASH_PROGRAMS", 1000);
  for (unsigned seed = first; seed < first + programs; ++seed) {
    const Trace trace = random_program(seed);
    const auto device = make_simulated_device({64_GiB, 64});
    const Bytes bare = replay(trace, *device, Subject::Bare, Config{}, {}).peak_held;
    INFO("CUSTASH_SEED=" << seed << ": bare needs " << bare);
    CHECK(fits(trace, Config{}, Subject::Custash, bare));
  }
}

}  // namespace custash::replay
