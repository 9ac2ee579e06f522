// SPDX-License-Identifier: MIT
// What a random program with pinned memory is made of.
#include "tests/property/pinned_generator.hpp"

#include <algorithm>

#include <cuda.h>

namespace custash::property {
namespace {

constexpr unsigned kCombined = CU_MEMHOSTALLOC_WRITECOMBINED;
const std::vector<Bytes> kSmallSizes{1, 512, 3000, 4096, 70'000, 300_KiB, 1_MiB};
const std::vector<Bytes> kLargeSizes{1_MiB + 1, 3_MiB, 5_MiB + 4_KiB, 12_MiB};

class StyleMaker : private Dice {
 public:
  explicit StyleMaker(std::uint64_t seed) : Dice(seed * 0x9e3779b97f4a7c15ULL + 1) {}

  PinStyle make() {
    PinStyle style = anything();
    const int special = pick(0, 99);
    if (special < 20) overtaking(style);
    if (special >= 20 && special < 30) pressing(style);
    return style;
  }

 private:
  PinStyle anything() {
    PinStyle style;
    style.threads = std::max(1, pick(-1, 3));
    style.synced = !one_in(4);
    style.commands = pick(15, 80);
    style.contexts = one_in(3) ? 2 : 1;
    style.created_context = one_in(4);
    style.resets = one_in(6);
    style.legacy = !one_in(3);
    style.per_thread = one_in(3);
    style.max_streams = pick(0, 5);
    if (!style.legacy && !style.per_thread) style.max_streams = std::max(1, style.max_streams);
    style.captures = one_in(4);
    style.mutual = one_in(3);
    style.released = one_in(2);
    style.copies_out = one_in(2);
    style.empties = one_in(2);
    style.lazy = one_in(3);
    style.syncs = pick(0, 6);
    const int kind = pick(0, 3);  // small, large, both, one size
    for (int n = kind == 3 ? 1 : pick(1, 4); n > 0; --n)
      style.sizes.push_back(
          any(kind == 1 || (kind != 0 && one_in(2)) ? kLargeSizes : kSmallSizes));
    for (int n = pick(1, 3); n > 0; --n)
      style.flags.push_back(static_cast<unsigned>(one_in(2) ? 0 : pick(0, 7)));
    return style;
  }

  // Threads that know nothing of each other and stand still in the middle of driver calls.
  void overtaking(PinStyle& style) {
    style.threads = pick(2, 3);
    style.synced = false;
    style.nested = true;
    style.turns = 50;
    style.legacy = false;  // its implicit order would make them depend on each other
    style.created_context = false;
    style.contexts = 1;
    style.max_streams = 6;
    style.sizes.resize(1);
    style.flags.resize(1);
    // It waits for the device, and a kernel there may wait for a thread that was overtaken.
    style.empties = style.empties && !style.mutual;
  }

  // More memory in flight than an allocation lets grow. Write-combined, which nothing touches.
  void pressing(PinStyle& style) {
    style.sizes = {one_in(2) ? 40_MiB : 90_MiB};
    style.flags = {kCombined};
    style.max_streams = pick(1, 4);
    style.captures = false;
    style.mutual = false;
    style.syncs = 0;
    style.lazy = true;
    style.commands = 80;
  }
};

}  // namespace

PinStyle pinned_style(std::uint64_t seed) {
  return StyleMaker(seed).make();
}

}  // namespace custash::property
