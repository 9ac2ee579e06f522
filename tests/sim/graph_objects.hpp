// SPDX-License-Identifier: MIT
// A graph: its nodes and the edges between them. An executable is a copy of one. Owned by the
// world, guarded by its lock.
#pragma once

#include "tests/sim/work.hpp"

#include <cstdint>
#include <memory>
#include <vector>

#include <cuda.h>

namespace custash::sim {

// Memory of a stream-ordered allocation that belongs to a graph; freed with the last owner.
using GraphMemory = std::shared_ptr<void>;

struct Graph;

struct GraphNode {
  NodeId id = 0;  // an executable's node has the id of the node that it is made of
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::uint64_t context_id = 0;  // in which it runs; 0: the launching stream's
  Work work = {};
  CUevent event = nullptr;                  // that it records or waits for
  std::shared_ptr<const Graph> child = {};  // that it is
  CUgraph child_handle = nullptr;           // of a copy, once it was asked for
  std::vector<NodeId> after = {};
  CUgraphNode handle = nullptr;  // once one was asked for
  bool enabled = true;
  bool updatable = false;  // by kernels
};

struct Graph {
  std::vector<GraphNode> nodes = {};  // as they were made: each behind those it comes after
  std::vector<GraphMemory> memory = {};
  OpId launched = 0;  // an executable's: the end of its last launch
};

// What the handle of a graph's node names.
struct NodePlace {
  CUgraph graph = nullptr;
  NodeId id = 0;
};

}  // namespace custash::sim
