// SPDX-License-Identifier: MIT
#include "tests/property/cycle.hpp"

#include "allocator/heap/size_policy.hpp"
#include "tests/property/dice.hpp"

#include <algorithm>
#include <cmath>

namespace custash::property {
namespace {

constexpr Bytes kMostInUse = 6_GiB;  // of 8 GiB

enum class Lives { Nested, Crossing, Together };

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : dice_(seed * 0x9e3779b97f4a7c15ULL + 1) {
    cycle_.seed = seed;
    static constexpr Bytes kLargest[] = {64_KiB, 1_MiB, 2_MiB, 8_MiB, 48_MiB, 256_MiB, 1_GiB};
    largest_ = kLargest[dice_.pick(0, 6)];
    if (dice_.chance(60)) {
      for (int n = dice_.pick(1, 8); n > 0; --n)
        palette_.push_back(random_size());
    }
    lives_ = Lives(dice_.pick(0, 2));
    cycle_.streams = dice_.chance(50) ? 0 : dice_.pick(1, 4);
    named_ = dice_.pick(10, 100);
    cycle_.threads = dice_.chance(75) ? 1 : dice_.pick(2, 4);
    static constexpr std::size_t kInFlight[] = {1, 4, 16, 64};
    cycle_.in_flight = kInFlight[dice_.pick(0, 3)];
    static constexpr std::int64_t kKernels[] = {500, 5'000, 50'000};
    cycle_.kernel = kKernels[dice_.pick(0, 2)];
    launches_ = dice_.pick(0, 2) * 50;
  }

  Cycle make() {
    if (dice_.chance(50)) {
      for (int n = dice_.pick(1, 12); n > 0; --n)
        allocate(&cycle_.once);
      alive_.clear();  // for good
    }
    const int wanted = dice_.chance(30) ? dice_.pick(1, 5) : dice_.pick(2, 40);
    const int together = dice_.pick(1, wanted);
    for (int made = 0; made < wanted;) {
      const bool full = static_cast<int>(alive_.size()) >= together;
      if (!full && (alive_.empty() || lives_ == Lives::Together || dice_.chance(60))) {
        allocate(&cycle_.commands);
        ++made;
      } else if (lives_ == Lives::Together) {
        free_all();
      } else {
        free_one();
      }
      if (dice_.one_in(25)) cycle_.commands.push_back({.kind = StepKind::Synchronize});
    }
    free_all();
    if (dice_.chance(50)) cycle_.commands.push_back({.kind = StepKind::Synchronize});
    // What the device is behind by stops growing after some cycles.
    const auto launches =
        std::count_if(cycle_.commands.begin(), cycle_.commands.end(), [](const Step& step) {
          return step.kind == StepKind::Launch;
        });
    cycle_.in_flight = std::min(cycle_.in_flight, static_cast<std::size_t>(4 * launches + 1));
    return cycle_;
  }

 private:
  Bytes random_size() {
    const double lowest = 9;  // 512 bytes
    const double highest = std::log2(static_cast<double>(largest_));
    const double at = lowest + (highest - lowest) * dice_.pick(0, 1'000'000) / 1e6;
    const auto bytes = static_cast<Bytes>(std::exp2(at));
    return dice_.chance(50) ? align_up(bytes, dice_.chance(50) ? 512 : 64_KiB) : bytes;
  }

  int any_stream() {
    return cycle_.streams != 0 && dice_.chance(named_) ? dice_.pick(1, cycle_.streams) : 0;
  }

  void allocate(std::vector<Step>* out) {
    Bytes bytes = palette_.empty() ? random_size() : dice_.any(palette_);
    if (in_use_ + bytes > kMostInUse) bytes = kAlignment;
    in_use_ += bytes;
    const Step step{.kind = StepKind::Allocate,
                    .slot = cycle_.slots++,
                    .bytes = bytes,
                    .stream = any_stream(),
                    .thread = dice_.pick(0, cycle_.threads - 1)};
    out->push_back(step);
    alive_.push_back(step);
    if (dice_.chance(launches_)) launch(step, out);
  }

  void launch(Step step, std::vector<Step>* out) {
    step.kind = StepKind::Launch;
    out->push_back(step);
  }

  void free_one() {
    const auto at =
        lives_ == Lives::Crossing
            ? static_cast<std::size_t>(dice_.pick(0, static_cast<int>(alive_.size()) - 1))
            : alive_.size() - 1;
    Step step = alive_[at];
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(at));
    if (dice_.chance(launches_)) launch(step, &cycle_.commands);
    step.kind = StepKind::Free;
    if (dice_.one_in(4)) step.thread = dice_.pick(0, cycle_.threads - 1);
    cycle_.commands.push_back(step);
    in_use_ -= step.bytes;
  }

  void free_all() {
    while (!alive_.empty())
      free_one();
  }

  Dice dice_;
  Cycle cycle_;
  Bytes largest_ = 0;
  std::vector<Bytes> palette_;
  Lives lives_ = Lives::Nested;
  int named_ = 0;     // of 100 calls, those that name a stream
  int launches_ = 0;  // beside so many of 100 allocations and frees
  std::vector<Step> alive_;
  Bytes in_use_ = 0;
};

std::string to_string(const Step& step) {
  static constexpr const char* kNames[] = {"allocate", "free", "launch", "synchronize"};
  std::string text = std::string("  ") + kNames[static_cast<int>(step.kind)];
  if (step.kind == StepKind::Synchronize) return text;
  text += " #" + std::to_string(step.slot);
  if (step.kind == StepKind::Allocate) text += " " + std::to_string(step.bytes) + " bytes";
  if (step.stream != 0) text += " on stream " + std::to_string(step.stream);
  if (step.thread != 0) text += ", thread " + std::to_string(step.thread);
  return text;
}

}  // namespace

Cycle random_cycle(std::uint64_t seed) {
  return Maker(seed).make();
}

std::string to_string(const Cycle& cycle) {
  std::string text = "cycle seed " + std::to_string(cycle.seed) + ", " +
                     std::to_string(cycle.in_flight) + " launches in flight of " +
                     std::to_string(cycle.kernel) + " ns\n";
  for (const Step& step : cycle.once)
    text += to_string(step) + ", once\n";
  for (const Step& step : cycle.commands)
    text += to_string(step) + "\n";
  return text;
}

}  // namespace custash::property
