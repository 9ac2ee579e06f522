// SPDX-License-Identifier: MIT
// GraphMemory: tells an allocator what a program captures, and which graphs it makes and ends.
// A block allocated beside a capture stays as long as a graph may use it. Handles are those of
// graphs and of executables. Thread safe; no state of its own.
// decision 11
#pragma once

#include "allocator/allocator.hpp"

#include <cstdint>
#include <vector>

namespace custash {

class GraphMemory {
 public:
  explicit GraphMemory(Allocator& core) : state_(core.state()) {}

  // ---- Stream captures. Call capture_begins() before the driver's BeginCapture and
  // capture_begin_done() after it; capture_ended() after an EndCapture that ended one. `graph`:
  // into which it captures, or which it has made; null: none.
  void capture_begins(CUstream stream, NullStream null);
  void capture_begin_done(CUstream stream,
                          NullStream null,
                          bool began,
                          const void* graph = nullptr);
  void capture_ended(CUstream stream, NullStream null, const void* graph);

  // ---- Graphs.

  // The driver has made `handle`: a copy of `from` (null: an empty graph), an executable of it,
  // or one that was updated from it.
  void made(const void* handle, const void* from);
  // `graph` contains `part`, or soon will: before the driver's call.
  void contains(const void* graph, const void* part);
  // A node is added or changed by hand. It may become a part of any capture that goes on.
  void node_changes();

  // A handle that is being destroyed. Before the driver's call, since afterwards another thread
  // may get the same handle. Then either destroyed() or stays().
  using Leaving = std::vector<std::uint64_t>;
  Leaving leaves(const void* handle);
  void destroyed(const Leaving& leaving);
  void stays(const void* handle, const Leaving& leaving);

 private:
  Allocator::State& state_;
};

}  // namespace custash
