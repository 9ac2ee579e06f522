// SPDX-License-Identifier: MIT
// What random programs are made of.
#include "tests/property/dice.hpp"
#include "tests/property/generate.hpp"

#include <algorithm>

#include <cuda.h>

namespace custash::property {
namespace {

const std::vector<Bytes> kSmallSizes{1, 512, 513, 1000, 4096, 70'000, 300_KiB, 1_MiB};
const std::vector<Bytes> kLargeSizes{1_MiB + 1, 3_MiB, 5_MiB + 512, 9_MiB, 12_MiB, 21_MiB};

// What all programs have in common.
class StyleDice : protected Dice {
 protected:
  explicit StyleDice(std::uint64_t seed) : Dice(seed * 0x9e3779b97f4a7c15ULL + 1) {}

  Style draw_threads() {
    Style style;
    style.threads = std::max(1, pick(-1, 3));
    style.synced = !one_in(4);
    style.commands = pick(15, 80);
    return style;
  }

  void draw_streams(Style& style) {
    style.max_streams = pick(0, 5);
    if (!style.legacy && !style.per_thread) style.max_streams = std::max(1, style.max_streams);
  }

  void draw_sizes(Style& style,
                  const std::vector<Bytes>& small,
                  const std::vector<Bytes>& large) {
    const int kind = pick(0, 3);  // small, large, both, one size
    for (int n = kind == 3 ? 1 : pick(1, 4); n > 0; --n)
      style.sizes.push_back(any(kind == 1 || (kind != 0 && one_in(2)) ? large : small));
  }

  // Threads that know nothing of each other and stand still in the middle of driver calls.
  void let_overtake(Style& style) {
    style.threads = pick(2, 3);
    style.synced = false;
    style.nested = true;
    style.legacy = false;  // its implicit order would make them depend on each other
    style.contexts = 1;
    style.turns = 50;
    style.max_streams = 6;
    style.sizes.resize(1);
  }
};

class StyleMaker : private StyleDice {
 public:
  explicit StyleMaker(std::uint64_t seed) : StyleDice(seed) {}

  Style make() {
    Style style = anything();
    const int special = pick(0, 99);
    if (special < 15) overtaking(style);
    if (special >= 15 && special < 28) pressing(style);
    if (special >= 28 && special < 38) reaching(style);
    if (special >= 38 && special < 44) nearly_full(style);
    if (special >= 44 && special < 50) sharing(style);
    if (special >= 50 && special < 56) capturing(style);
    return style;
  }

 private:
  Style anything() {
    Style style = draw_threads();
    style.contexts = one_in(4) ? 2 : 1;
    style.created_contexts = one_in(5) ? pick(1, 3) : 0;
    style.legacy = !one_in(3);
    style.per_thread = one_in(3);
    style.streams_end = one_in(2);
    draw_streams(style);
    style.captures = one_in(3);
    style.green = one_in(6);
    style.forks = one_in(2);
    style.capture_memory = one_in(4);
    style.spent_graphs = one_in(2);
    style.peers = one_in(3);
    style.early = one_in(6);
    style.shared = one_in(8);
    style.threads_end = style.threads > 1 && one_in(3);
    style.capture_share = one_in(3) ? 25 : 0;
    style.reuse_share = one_in(3) ? 10 : 0;
    style.other_share = one_in(2) ? 10 : 0;
    style.mutual = one_in(2);
    style.host_view = one_in(2);
    style.stream_ordered = one_in(2);
    style.trims = one_in(2);
    style.syncs = pick(0, 6);
    style.ordered_share = one_in(3) ? 90 : 30;
    draw_sizes(style, kSmallSizes, kLargeSizes);
    return style;
  }

  void overtaking(Style& style) {
    let_overtake(style);
    style.green = false;
    style.created_contexts = one_in(4) ? 2 : 0;
    style.lazy = one_in(2);
  }

  // Kernels, copies and graphs of one device with memory of the other.
  void reaching(Style& style) {
    style.contexts = 2;
    style.peers = true;
    style.cross = true;
    style.captures = one_in(2);
    style.forks = true;
    style.capture_share = 30;
    style.other_share = 10;
    style.reuse_share = 20;
    style.early = one_in(3);
    style.max_streams = pick(2, 4);
    style.legacy = one_in(4);
    style.sizes.resize(1);
    style.lazy = one_in(2);
  }

  // What fits bare has to fit. Not among what must: stream-ordered frees (an allocation waits
  // for younger work, docs/semantics.md), blocks of graphs, which are kept, and of other
  // processes.
  void nearly_full(Style& style) {
    style.memory = static_cast<Bytes>(pick(20, 60)) * 2_MiB;
    style.sizes = kLargeSizes;
    if (one_in(2)) style.sizes.push_back(300_KiB);
    style.stream_ordered = false;
    style.captures = false;
    style.shared = false;
    style.created_contexts = 0;
    style.syncs = pick(0, 2);
    style.lazy = true;
    style.commands = 80;
  }

  // Graphs whose memory comes and goes.
  void capturing(Style& style) {
    style.captures = true;
    style.forks = one_in(2);
    style.capture_memory = true;
    style.spent_graphs = true;
    style.capture_share = 40;
    style.reuse_share = 10;
    style.max_streams = pick(1, 4);
    style.stream_ordered = true;
    style.sizes.resize(1);
    style.lazy = one_in(2);
  }

  void sharing(Style& style) {
    style.shared = true;
    style.early = one_in(2);
    style.other_share = 15;
    style.reuse_share = 20;
    style.sizes.resize(1);
    style.max_streams = std::max(1, style.max_streams);
    style.lazy = true;
  }

  // More memory in limbo than the run-ahead budget lets grow.
  void pressing(Style& style) {
    style.sizes = {one_in(2) ? 12_MiB : 21_MiB};
    style.max_streams = pick(2, 4);
    style.stream_ordered = true;
    style.ordered_share = one_in(2) ? 90 : 40;
    style.legacy = false;
    style.syncs = 0;
    style.lazy = true;
    style.captures = false;
    style.commands = 80;
  }
};

constexpr unsigned kCombined = CU_MEMHOSTALLOC_WRITECOMBINED;
const std::vector<Bytes> kSmallBuffers{1, 512, 3000, 4096, 70'000, 300_KiB, 1_MiB};
const std::vector<Bytes> kLargeBuffers{1_MiB + 1, 3_MiB, 5_MiB + 4_KiB, 12_MiB};

class PinnedStyleMaker : private StyleDice {
 public:
  explicit PinnedStyleMaker(std::uint64_t seed) : StyleDice(seed) {}

  Style make() {
    Style style = anything();
    const int special = pick(0, 99);
    if (special < 20) overtaking(style);
    if (special >= 20 && special < 30) pressing(style);
    return style;
  }

 private:
  Style anything() {
    Style style = draw_threads();
    style.contexts = one_in(3) ? 2 : 1;
    style.created_contexts = one_in(4) ? 1 : 0;
    style.resets = one_in(6);
    style.legacy = !one_in(3);
    style.per_thread = one_in(3);
    draw_streams(style);
    style.captures = one_in(4);
    style.mutual = one_in(3);
    style.released = one_in(2);
    style.copies_out = one_in(2);
    style.trims = one_in(2);
    style.lazy = one_in(3);
    style.syncs = pick(0, 6);
    draw_sizes(style, kSmallBuffers, kLargeBuffers);
    for (int n = pick(1, 3); n > 0; --n)
      style.flags.push_back(static_cast<unsigned>(one_in(2) ? 0 : pick(0, 7)));
    return style;
  }

  void overtaking(Style& style) {
    let_overtake(style);
    style.created_contexts = 0;
    style.flags.resize(1);
    // It waits for the device, and a kernel there may wait for a thread that was overtaken.
    style.trims = style.trims && !style.mutual;
  }

  // More memory in flight than an allocation lets grow. Write-combined, which nothing touches.
  void pressing(Style& style) {
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

Style random_style(std::uint64_t seed) {
  return StyleMaker(seed).make();
}

Style random_pinned_style(std::uint64_t seed) {
  return PinnedStyleMaker(seed).make();
}

}  // namespace custash::property
