// SPDX-License-Identifier: MIT
// TorchBudget: how much of a snapshot of PyTorch becomes custash's. A list or a text may be in
// millions of places of a small pickle; the report has a copy for each.
#pragma once

#include "tools/command/snapshot/read.hpp"

#include <string>
#include <string_view>

namespace custash::snapshot {

// Each call throws BadSnapshot beyond what any snapshot needs.
class TorchBudget {
 public:
  explicit TorchBudget(const std::string& name) : name_(name) {}

  // A block or an event.
  void count_item() { add(1, &items_, kMostItems, "too many blocks and events"); }

  void count_segment() { add(kOfSegment, &items_, kMostItems, "too many blocks and events"); }

  void count_text(std::string_view text) {
    if (text.size() > kLongestText) throw BadSnapshot(name_ + ": frames: a text too long");
  }

  // `text`: all that is kept of it.
  void count_frame(std::string_view text) {
    add(1, &frames_, kMostFrames, "too many frames");
    add(text.size(), &text_, kMostText, "too many frames");
  }

  void count_stack(std::size_t frames) {
    add(frames, &in_stacks_, kMostInStacks, "too many frames");
  }

 private:
  static constexpr std::size_t kMostItems = std::size_t{1} << 22;
  static constexpr std::size_t kOfSegment = 16;  // what one takes, in items
  static constexpr std::size_t kMostFrames = std::size_t{1} << 20;
  static constexpr std::size_t kMostInStacks = std::size_t{1} << 24;
  static constexpr std::size_t kLongestText = std::size_t{1} << 16;
  static constexpr std::size_t kMostText = std::size_t{1} << 27;

  void add(std::size_t more, std::size_t* sum, std::size_t most, const char* why) const {
    *sum += more;
    if (*sum > most) throw BadSnapshot(name_ + ": " + why);
  }

  const std::string name_;
  std::size_t items_ = 0, frames_ = 0, text_ = 0, in_stacks_ = 0;
};

}  // namespace custash::snapshot
