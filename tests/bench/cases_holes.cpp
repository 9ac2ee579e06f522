// SPDX-License-Identifier: MIT
// Many free blocks between live ones, none as large as its neighbour.
#include "tests/bench/measure.hpp"

#include <cstdint>
#include <utility>

namespace bench {
namespace {

constexpr std::size_t kHowManySizes = 500;

// From just above 1 MiB on, in steps of 4 KiB.
std::size_t one_of_many(std::uint64_t i) {
  return (std::size_t{1} << 20) + 4096 * (1 + i % kHowManySizes);
}

std::uint64_t next(std::uint64_t random) {
  random ^= random << 13;
  random ^= random >> 7;
  return random ^ random << 17;
}

// Live blocks with a free one behind each. They stay for the case's later runs.
struct Holes {
  const Peer* peer = nullptr;
  std::vector<void*> live;
  std::vector<std::size_t> sizes;
};

bool make(const Peer& peer, std::size_t count, void* stream, Holes* holes) {
  if (holes->peer == &peer && holes->live.size() == count) return true;
  for (std::size_t i = 0; i < holes->live.size(); ++i)
    holes->peer->release(holes->live[i], holes->sizes[i], stream);
  *holes = {&peer, {}, {}};
  std::vector<std::pair<void*, std::size_t>> freed;
  std::uint64_t random = 88172645463325252U;
  bool ok = true;
  for (std::size_t i = 0; ok && i < 2 * count; ++i) {
    random = next(random);
    const std::size_t bytes = one_of_many(random);
    void* const block = peer.allocate(bytes, stream);
    ok = block != nullptr;
    if (!ok) break;
    if (i % 2 != 0) {
      freed.emplace_back(block, bytes);
      continue;
    }
    holes->live.push_back(block);
    holes->sizes.push_back(bytes);
  }
  for (const auto& [block, bytes] : freed)
    peer.release(block, bytes, stream);
  return ok;
}

}  // namespace

void holes(benchmark::State& state, const Peer& peer) {
  static auto& there = *new Holes;
  void* const stream = streams(1)[0];
  if (!make(peer, static_cast<std::size_t>(state.range(0)), stream, &there)) {
    state.SkipWithError("no memory");
    return;
  }
  std::uint64_t random = 1;
  timed(state, [&] {
    random = next(random);
    return pair(state, peer, one_of_many(random), stream);
  });
}

}  // namespace bench
