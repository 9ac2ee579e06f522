// SPDX-License-Identifier: MIT
// The blocks of a snapshot. No state.
#include "interpose/history/snapshot.hpp"

#include <algorithm>

namespace custash::snapshot {
namespace {

// Adjacent free pieces become one: only pieces in use or in limbo have borders that matter.
std::vector<Block> blocks_of(const std::vector<Piece>& pieces, const StackOf& stacks) {
  std::vector<Block> out;
  for (const Piece& piece : pieces) {
    if (piece.state == PieceState::Free && !out.empty() &&
        out.back().piece.state == PieceState::Free) {
      out.back().piece.size += piece.size;
      continue;
    }
    const auto known =
        piece.state == PieceState::Used ? stacks.find(piece.address) : stacks.end();
    out.push_back({piece, known == stacks.end() ? stacks::kNone : known->second});
  }
  return out;
}

}  // namespace

StackOf stack_of_blocks(const history::Reading& history) {
  StackOf stacks;
  for (const auto& [address, live] : history.live)
    stacks[address] = history.sites[live.site].stack;
  return stacks;
}

DeviceState device_state(const custash_device_stats_t& stats,
                         Inventory held,
                         const StackOf& stacks) {
  DeviceState state{stats, std::move(held), {}};
  std::sort(state.segments.begin(),
            state.segments.end(),
            [](const HeldSegment& a, const HeldSegment& b) { return a.base < b.base; });
  for (HeldSegment& segment : state.segments)
    state.blocks.push_back(blocks_of(std::exchange(segment.pieces, {}), stacks));
  return state;
}

}  // namespace custash::snapshot
