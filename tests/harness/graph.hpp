// SPDX-License-Identifier: MIT
// Graphs: work captured once and replayed. What is allocated during the capture belongs to the
// graph: tensors freed meanwhile hand their memory on within the capture only, and all of it
// stays until the graph is gone, since every replay uses the same addresses.
#pragma once

#include "tests/harness/memory.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace custash::harness {

class GraphMemory {
 public:
  GraphMemory() = default;
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  // The memory of the graph that this thread is capturing on the stream; null: none.
  static std::shared_ptr<GraphMemory> capturing(const Stream& stream);

  void* take(Bytes bytes);
  void put_back(void* memory);

  [[nodiscard]] Bytes bytes() const;

 private:
  struct Block {
    void* memory;
    Bytes bytes;
    bool taken;
  };

  std::vector<Block> blocks_;
};

class Graph {
 public:
  // Runs `work` with `stream` current, capturing instead of executing.
  static Graph capture(const Stream& stream, const std::function<void()>& work);

  void replay() const;  // on the current stream
  void replay(const Stream& stream) const;

  [[nodiscard]] Bytes memory() const { return memory_->bytes(); }

 private:
  Graph(std::shared_ptr<GraphMemory> memory, std::shared_ptr<CUgraphExec_st> exec)
      : memory_(std::move(memory)), exec_(std::move(exec)) {}

  // In this order: the executable goes before its memory does.
  std::shared_ptr<GraphMemory> memory_;
  std::shared_ptr<CUgraphExec_st> exec_;
};

}  // namespace custash::harness
