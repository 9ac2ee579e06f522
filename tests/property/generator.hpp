// SPDX-License-Identifier: MIT
// Generator: builds a program command by command. Before work touches a block, whatever is
// missing in the order (an event and a wait, or a wait of the host) is put in. One program
// each; no lock.
#pragma once

#include "tests/property/generate.hpp"
#include "tests/property/order.hpp"

#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace custash::property {

class Generator {
 public:
  Generator(std::uint64_t seed, const Style& style);
  Program make();

 private:
  struct GraphModel {
    int id = 0;
    int context = 0;
    int thread = 0;
    bool executable = false;
    bool template_alive = true;
    bool visible = false;
    std::vector<Use> uses = {};
    std::vector<std::pair<int, bool>> hosts = {};  // buffer, written
  };

  struct EventModel {
    int id = 0;
    int context = 0;
    int thread = 0;
    Clock clock = {};
  };

  struct Capture {
    int lane = -1;
    int thread = 0;
    bool relaxed = true;
    GraphModel graph;
  };

  int pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(int of_hundred) { return pick(1, 100) <= of_hundred; }

  template <typename T>
  T& any(std::vector<T>& of) {
    return of[static_cast<std::size_t>(pick(0, static_cast<int>(of.size()) - 1))];
  }

  void turn();
  Command& put(Op op);
  Command& put(Op op, int lane);
  void open_context(int context);

  [[nodiscard]] bool mine(int thread) const {
    return style_.synced || thread == thread_ || thread == -1;
  }

  int choose_lane(bool for_capture = false);
  std::vector<BlockModel*> live(int context, bool stranger = false);

  [[nodiscard]] bool host_may_wait() const { return capture_.lane < 0 || capture_.relaxed; }

  void put_in_order(int lane, const std::vector<UseModel>& uses, bool write);
  void record_event(int lane);
  void wait_event(int lane, const EventModel& event);
  void host_waits(int lane);
  void sync_context(int context);
  void share_host();

  Bytes size() {
    return style_
        .sizes[static_cast<std::size_t>(pick(0, static_cast<int>(style_.sizes.size()) - 1))];
  }

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
  void create_stream();
  void destroy_stream();
  void event_traffic();
  void host_sync();
  void capture_step();
  void end_capture();
  void graph_step();
  void context_step();

  static int device_of(int context) { return context == 1 ? 1 : 0; }

  void one();

  const Style& style_;
  std::mt19937_64 random_;
  Order order_;
  Program program_;
  int thread_ = 0;
  int context_ = 0;
  bool context_made_ = false;
  std::vector<int> contexts_;
  std::deque<BlockModel> blocks_;  // references stay good
  std::vector<EventModel> events_;
  std::vector<GraphModel> graphs_;
  std::vector<std::vector<UseModel>> host_buffers_;
  std::vector<std::vector<Clock>> visible_;  // by context
  Capture capture_;
  int next_block_ = 0, next_event_ = 0, next_graph_ = 0, next_stream_ = kFirstStream,
      next_flag_ = 1;
};

}  // namespace custash::property
