// SPDX-License-Identifier: MIT
// What the entries of graphs share: nodes by their handles, edges, and the launch.
#pragma once

#include "tests/sim/entry.hpp"

#include <optional>
#include <span>

namespace custash::sim {

GraphNode* find_node(Graph& graph, NodeId id);
const GraphNode* find_node(const Graph& graph, NodeId id);

// A node of the graph `in` (null: of any); null: no such node. A node's handle is made when it
// is first asked for.
GraphNode* node_of(World& world, CUgraphNode handle, CUgraph in = nullptr);
CUgraphNode handle_of(World& world, CUgraph graph, GraphNode& node);

// The ids behind handles; none where one of them is no node of the graph.
std::optional<std::vector<NodeId>> ids_of(World& world,
                                          CUgraph graph,
                                          const CUgraphNode* nodes,
                                          std::size_t count);

NodeId add_node(World& world, Graph& graph, GraphNode node);

// With nodes of its own.
std::unique_ptr<Graph> clone(World& world, const Graph& graph);
void drop_graph(World& world, CUgraph handle);

// Submits the executable's nodes between a beginning and an end in the stream; in a capture it
// is one node.
CUresult launch_graph(Frame& frame, Stream& stream, Graph& executable);

}  // namespace custash::sim
