// SPDX-License-Identifier: MIT
// PinnedGenerator: builds a program with pinned memory command by command. Before work or the
// host touches a buffer, whatever is missing in the order is put in. One program each; no lock.
#pragma once

#include "tests/property/frame.hpp"

#include <vector>

namespace custash::property {

class PinnedGenerator : private Frame {
 public:
  PinnedGenerator(std::uint64_t seed, const Style& style) : Frame(seed, style) {
    program_.pinned = true;
  }

  Program make();

 private:
  void one() override;
  std::vector<BlockModel*> live();

  // Buffers.
  void alloc();
  void host_access(BlockModel& buffer, bool write);
  void free_plain(BlockModel& buffer);
  void release(BlockModel& buffer);
  void name(BlockModel& buffer, int lane);
  void end_any();

  // Work.
  void work();
  void use(BlockModel& buffer, int lane, Op op, bool write);
  void late_copy();
  void mutual();
  void captured_work();
  void capture_step();
  void graph_step();

  // Streams and contexts.
  void destroy_stream();
  void context_step();
  void forget_context(int context);
};

}  // namespace custash::property
