// SPDX-License-Identifier: MIT
// Generator: builds a program command by command. Before work touches a block, whatever is
// missing in the order (an event and a wait, or a wait of the host) is put in. One program
// each; no lock.
#pragma once

#include "tests/property/frame.hpp"

#include <map>
#include <utility>
#include <vector>

namespace custash::property {

class Generator : private Frame {
 public:
  Generator(std::uint64_t seed, const Style& style);
  Program make();

 private:
  // A launch is the first or second driver call of its command.
  [[nodiscard]] int calls_of(const Command& command) const override {
    return command.op == Op::Kernel ? 2 : 7;
  }

  std::vector<BlockModel*> live(int context, bool stranger = false);
  std::vector<BlockModel*> in_reach(int context);
  [[nodiscard]] bool reaches(int context, int other) const;

  BlockModel& plain_block(Bytes bytes);
  [[nodiscard]] bool has_room(Bytes bytes) const;
  bool malloc_plain();  // false: nothing was allocated
  void malloc_async();
  void free_plain(BlockModel& block);
  void free_async(BlockModel& block);
  void free_any();
  bool leave_graphs(const BlockModel& block);
  Use part_of(const BlockModel& block, bool write);

  std::vector<Use> choose_uses(int context);
  void order_uses(int lane, std::vector<Use>& uses);
  void note_uses(int lane, int number, const std::vector<Use>& uses, bool several = false);

  void kernel();
  void kernel_on(int lane, std::vector<Use> uses, bool may_be_early);
  void copy_on(int lane, BlockModel& target, BlockModel& source);
  void reuse();
  void copy_elsewhere(int block);
  void use_in_graph(int block);
  void graph_comes_and_goes();
  void context_ends_behind_a_free();
  void use_from_outside(BlockModel& block);
  void mutual();
  void overtaken();
  void fill();
  void copy_block();
  void copy_with_host(Op op);
  void host_read(int buffer);
  void host_function();
  void destroy_stream();
  void event_traffic();
  void host_sync();
  void capture_step();
  void begin_capture();
  void captured_kernel(int at, std::vector<Use> uses);
  void captured_memory();
  void draw_in(int context);
  void wait_inside(int lane, int other);
  void end_capture() override;
  void graph_step();
  void launch_graph(GraphModel& graph, int lane);
  void context_step();
  void end_context(int context);
  void peer_step();
  void end_access(int context, int other);
  void sharing_step();
  void end_thread();

  bool something_else();  // false: the style has nothing of it
  void one() override;

  // `context` may reach the memory of `other`; `thread` knows it.
  struct AccessModel {
    int context = 0;
    int other = 0;
    int thread = 0;
  };

  std::vector<AccessModel> access_;
  std::vector<Clock> over_;  // by thread: what the device has done, as frees have waited for it
  // Of the capture that goes on: an order of its own, with a lane for each of its streams.
  Order inside_{1};
  std::map<int, std::vector<UseModel>> inside_uses_;  // by block
  std::vector<std::vector<UseModel>> host_buffers_;
};

}  // namespace custash::property
