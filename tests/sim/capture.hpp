// SPDX-License-Identifier: MIT
// Stream capture: which calls it forbids, what they do to it, and the door through which all
// work goes: into the stream's capture where there is one, to the device otherwise.
#pragma once

#include "tests/sim/entry.hpp"

namespace custash::sim {

// A call that is unsafe during captures (allocation, free, synchronisation): 900 and the
// captures that forbid it are invalidated, by the thread's mode and theirs.
CUresult forbid_unsafe(World& world, ThreadState& thread);

// A call upon the whole context (record, wait, synchronise): 900 in every mode while any of its
// streams captures, and those captures are invalidated.
CUresult forbid_in_context(World& world, const Context& context);

// A wait for or query of this stream.
CUresult forbid_on_stream(World& world, ThreadState& thread, Stream& stream);

void invalidate(Capture& capture);
Capture* capture_by_id(World& world, std::uint64_t id);
void end_capture(World& world, Capture& capture);
void leave_capture(World& world, Stream& stream);  // the stream is being destroyed

// May anything be put into the stream now? (901 of a broken capture, 906 of the legacy stream.)
CUresult admit(World& world, Stream& stream);

// The graph that it makes; null: it was destroyed meanwhile.
Graph* graph_of(World& world, const Capture& capture);

// Adds a node behind what the stream's capture has, of the stream's context.
CUresult capture_node(World& world, Stream& stream, GraphNode node);

// Submits, or adds a node to the stream's capture.
CUresult enqueue(Frame& frame, Stream& stream, Work work, OpId* op = nullptr);

}  // namespace custash::sim
