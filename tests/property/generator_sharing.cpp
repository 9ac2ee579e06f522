// SPDX-License-Identifier: MIT
// Blocks that are used from outside: by other processes (IPC) and by cards (SYNC_MEMOPS,
// DMA-BUF). Nothing of that is work of a stream: the program waits on the host before it lets
// them write, as an importer that is told by a message does.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::sharing_step() {
  if (capture_.lane >= 0) return;
  std::vector<BlockModel*> of;
  for (BlockModel& block : blocks_) {
    const bool there = block.alive || block.shared;
    if (there && block.context == context_ && mine(block.thread)) of.push_back(&block);
  }
  if (of.empty()) return;
  BlockModel& block = chance(60) ? *of.back() : *any(of);
  if (block.shared && chance(35)) {
    put(Op::Unshare).block = block.id;
    block.shared = false;
    return;
  }
  use_from_outside(block);
}

void Generator::use_from_outside(BlockModel& block) {
  if (!block.shared) {
    block.shared = chance(70);
    put(block.shared ? Op::Share : Op::Leave).block = block.id;
  }
  // To the detector the write is the thread's own. Threads that know nothing of each other are
  // in no order there, though the allocator's lock puts a free before the next hand-out.
  if (chance(30) || (style_.threads > 1 && !style_.synced)) return;
  host_waits_for_all(block.uses, true);
  put(Op::Foreign).block = block.id;
}

}  // namespace custash::property
