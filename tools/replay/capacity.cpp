// SPDX-License-Identifier: MIT
#include "tools/replay/questions.hpp"

#include <bit>

namespace custash::replay {
namespace {

constexpr Bytes kGranule = 2_MiB;
constexpr Bytes kMostGrowth = 64;  // times the peak in use; who needs more never fits

}  // namespace

bool fits(const Trace& trace, const Config& config, Subject subject, Bytes memory) {
  const auto device = make_simulated_device({memory});
  return replay(trace, *device, subject, config, {.stop_at_refusal = true}).fits;
}

Bytes smallest_device(const Trace& trace,
                      const Config& config,
                      Subject subject,
                      const std::function<void(Bytes, std::size_t, std::size_t)>& progress) {
  // What is in use at once is a floor for everybody; most need little more.
  const Bytes floor = align_up(trace.peak, kGranule);
  Bytes too_small = floor < kGranule ? 0 : floor - kGranule;
  Bytes enough = floor + align_up(floor / 64, kGranule);
  std::size_t tries = 0;
  const auto does = [&](Bytes memory) {
    const std::size_t left = std::bit_width((enough - too_small) / kGranule);
    progress(memory, tries, tries + left);
    ++tries;
    return fits(trace, config, subject, memory);
  };
  while (!does(enough)) {
    if (enough > kMostGrowth * floor + kMostGrowth * kGranule) return 0;
    too_small = enough;
    enough += align_up(enough / 4, kGranule);
  }
  while (enough - too_small > kGranule) {
    const Bytes middle = align_down(too_small + (enough - too_small) / 2, kGranule);
    (does(middle) ? enough : too_small) = middle;
  }
  return enough;
}

}  // namespace custash::replay
