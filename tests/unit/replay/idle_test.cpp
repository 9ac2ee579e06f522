// SPDX-License-Identifier: MIT
// What is held of what is alive once a program idles after its peak.
#include "tests/catch.hpp"
#include "tools/replay/questions.hpp"

#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

namespace custash::replay {
namespace {

// Weights that stay, and requests that come in a rush and become few. Each has a cache in every
// layer, which grows while the request lives, and activations that come and go.
class Server {
 public:
  explicit Server(unsigned seed) : random_(seed) {
    for (int i = 0; i < 16; ++i)
      (void)allocate(48_MiB + random_() % 32_MiB);
  }

  Trace run(std::size_t requests, std::size_t at_peak, std::size_t at_rest) {
    for (std::size_t i = 0; i < requests; ++i) {
      const bool rush = i > requests / 4 && i < requests / 2;
      while (live_.size() >= (rush ? at_peak : at_rest))
        end(random_() % live_.size());
      live_.emplace_back();
      for (int layer = 0; layer < kLayers; ++layer)
        live_.back().push_back(allocate(block()));
      for (int step = 0; step < 4; ++step)
        grow(live_[random_() % live_.size()]);
    }
    return parse_trace("server", text_);
  }

 private:
  struct Block {
    int number;
    Bytes bytes;
  };

  using Request = std::vector<Block>;
  static constexpr int kLayers = 24;

  Bytes block() { return 512_KiB + random_() % 12_MiB; }

  void event(char op, const Block& block) {
    text_ += std::string("0 0 ") + op + ' ' + std::to_string(block.number) + ' ' +
             std::to_string(block.bytes) + " -\n";
  }

  Block allocate(Bytes bytes) {
    const Block block{++last_, bytes};
    event('a', block);
    return block;
  }

  void grow(Request& request) {
    const Block activation = allocate(block());
    for (Block& cache : request) {
      if (random_() % 3 != 0) continue;
      const Block larger = allocate(cache.bytes + cache.bytes / 4);
      event('f', cache);
      cache = larger;
    }
    event('f', activation);
  }

  void end(std::size_t at) {
    for (const Block& cache : live_[at])
      event('f', cache);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::mt19937 random_;
  std::string text_;
  int last_ = 0;
  std::deque<Request> live_;
};

double over(Bytes held, const IdleMoment& moment) {
  return static_cast<double>(held) / static_cast<double>(moment.in_use);
}

std::size_t number(const char* variable, std::size_t otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : static_cast<std::size_t>(std::atol(given));
}

}  // namespace

// CUSTASH_REQUESTS: how many the server has; CUSTASH_SHOW: print the figures.
TEST_CASE("a server that idles after a rush holds little more than it uses", "[idle]") {
  const Trace trace = Server(1).run(number("CUSTASH_REQUESTS", 160), 60, 3);
  const auto moments = idle_moments(trace, Config{}, {143'771_MiB}, 4);
  REQUIRE(moments.size() >= 4);
  double worst_trim = 0;
  for (const IdleMoment& each : moments) {
    if (std::getenv("CUSTASH_SHOW") != nullptr)
      WARN(each.events << " events: " << each.in_use / 1_MiB << " MiB, held "
                       << over(each.held, each) << ", trimmed " << over(each.trimmed, each)
                       << ", deep " << over(each.deep, each) << ", ms "
                       << static_cast<double>(each.time) / 1e6);
    CHECK(each.sound);
    CHECK(over(each.deep, each) <= 1.05);
    CHECK(each.time < 1'000'000'000);
    worst_trim = std::max(worst_trim, over(each.trimmed, each));
  }
  CHECK(worst_trim > 1.1);  // else a trim alone would have done
}

TEST_CASE("moments of idleness do not disturb each other", "[idle]") {
  const Trace trace = Server(2).run(40, 20, 3);
  const auto all = idle_moments(trace, Config{}, {64_GiB}, 4);
  const auto last = idle_moments(trace, Config{}, {64_GiB}, 1);
  REQUIRE(all.back().events == last.back().events);
  CHECK(all.back().held == last.back().held);
  CHECK(all.back().deep == last.back().deep);
}

}  // namespace custash::replay
