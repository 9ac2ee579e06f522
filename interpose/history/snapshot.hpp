// SPDX-License-Identifier: MIT
// Snapshot: everything that is known at one moment: statistics, each segment and block, the
// history and its call sites. Also the files that it is written to (docs/observing.md).
// Gathering takes each lock briefly, so parts may be some microseconds apart.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/api/custash.h"
#include "interpose/counters/passed_counts.hpp"
#include "interpose/history/history.hpp"
#include "interpose/history/symbols.hpp"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash::snapshot {

// As files have them, in the order of history::Action, observe::MemoryKind and PieceState.
inline constexpr const char* kActionNames[] = {
    "alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"};
inline constexpr const char* kMemoryNames[] = {"device", "pinned", "other"};
inline constexpr const char* kStateNames[] = {"free", "limbo", "used"};

struct Block {
  Piece piece;
  stacks::Id stack = stacks::kNone;
};

struct DeviceState {
  custash_device_stats_t stats{};
  Inventory segments;  // by address; their pieces stand in `blocks`
  std::vector<std::vector<Block>> blocks;
};

struct Snapshot {
  int pid = 0;
  std::string ended_by;  // how the process ended, where it ended before it reported; else empty
  std::string program;
  Nanoseconds time = 0;  // CLOCK_REALTIME
  std::vector<DeviceState> devices;
  std::vector<std::pair<std::string, std::int64_t>> host_stats;
  passed::PassedCounts passed{};
  history::Reading history;
  std::vector<Frame> frames;
  std::vector<std::vector<Symbols::Id>> stacks;  // for each of history.stacks, of `frames`
};

// Without events it has no segments either, only counters and call sites. No frames yet.
Snapshot take(Allocator& core, history::Events events = history::Events::With);

// The frames of its stacks. Takes the loader's lock.
void add_names(Snapshot* snapshot);

std::string command_line();

using StackOf = std::unordered_map<Address, stacks::Id>;
StackOf stack_of_blocks(const history::Reading& history);

// Segments by address, with the stack of each block.
DeviceState device_state(const custash_device_stats_t& stats,
                         Inventory held,
                         const StackOf& stacks);

std::string as_json(const Snapshot& snapshot);  // docs/snapshot-schema.json

// Replace: overwrites a snapshot; any other file is an error. Keep: where the name is taken,
// the process's number is added to it.
enum class Existing { Replace, Keep };

// Writes json_path(path) (snapshot_form.hpp). Leaves the old file or the complete new one
// (output_file.hpp). False, with the reason. `wrote` receives the file's name.
bool write(Allocator& core,
           const std::string& path,
           Existing existing,
           std::string* why,
           std::string* wrote);

}  // namespace custash::snapshot
