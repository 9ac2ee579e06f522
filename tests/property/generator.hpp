// SPDX-License-Identifier: MIT
// Generator: builds a program command by command. Before work touches a block, whatever is
// missing in the order (an event and a wait, or a wait of the host) is put in. One program
// each; no lock.
#pragma once

#include "tests/property/frame.hpp"
#include "tests/property/generate.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace custash::property {

struct GraphModel {
  int id = 0;
  int context = 0;
  int thread = 0;
  bool executable = false;
  bool template_alive = true;
  std::vector<Use> uses = {};
};

struct Kind {
  using Op = property::Op;
  using Command = property::Command;
  using Program = property::Program;
  using Style = property::Style;
  using Graph = GraphModel;
};

class Generator : private Frame<Kind> {
 public:
  Generator(std::uint64_t seed, const Style& style);
  Program make();

 private:
  void turn();
  std::vector<BlockModel*> live(int context, bool stranger = false);

  BlockModel& new_block(Bytes bytes);
  void malloc_plain();
  void malloc_async();
  void free_plain(BlockModel& block);
  void free_async(BlockModel& block);
  void free_any();
  bool in_graph(const BlockModel& block) const;
  Use part_of(const BlockModel& block, bool write);

  BlockModel& by_id(int id) { return blocks_[static_cast<std::size_t>(id)]; }

  std::vector<Use> choose_uses();
  void order_uses(int lane, const std::vector<Use>& uses);
  void note_uses(int lane, int number, const std::vector<Use>& uses);

  static void note(std::vector<UseModel>& uses, const UseModel& fresh) {
    uses.push_back(fresh);
  }

  void kernel();
  void mutual();
  void overtaken();
  void fill();
  void copy_block();
  void copy_to_host();
  void copy_from_host();
  void host_read(int buffer);
  void host_function();
  void destroy_stream();
  void event_traffic();
  void host_sync();
  void capture_step();
  void end_capture();
  void graph_step();
  void context_step();

  void one();

  std::deque<BlockModel> blocks_;  // references stay good
  std::vector<std::vector<UseModel>> host_buffers_;
  int next_block_ = 0;
};

}  // namespace custash::property
