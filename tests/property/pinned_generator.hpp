// SPDX-License-Identifier: MIT
// PinnedGenerator: builds a program with pinned memory command by command. Before work or the
// host touches a buffer, whatever is missing in the order is put in. One program each; no lock.
#pragma once

#include "tests/property/order.hpp"
#include "tests/property/pinned_program.hpp"

#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace custash::property {

// What a program is made of, drawn once for each.
struct PinStyle {
  int threads = 1;
  bool synced = true;
  bool nested = false;  // threads overtake each other inside driver calls
  int commands = 50;
  int contexts = 1;  // primary ones in use
  bool created_context = false;
  bool resets = false;
  bool legacy = true;
  bool per_thread = true;
  int max_streams = 4;
  bool captures = false;
  bool mutual = false;
  bool released = false;   // custash_host_free beside cudaFreeHost
  bool copies_out = true;  // else only the device reads
  bool empties = true;
  bool lazy = false;  // the device is seldom told to run
  int syncs = 2;      // how often the host waits, of 10
  std::vector<Bytes> sizes = {};
  std::vector<unsigned> flags = {};
};

PinStyle pinned_style(std::uint64_t seed);

class PinnedGenerator {
 public:
  PinnedGenerator(std::uint64_t seed, const PinStyle& style);
  PinProgram make();

 private:
  struct Buffer {
    int id = 0;
    int context = 0;
    int thread = 0;
    bool alive = true;
    bool written = false;  // by the host: the device may read it
    std::vector<UseModel> uses = {};
    std::vector<int> named = {};  // lanes
  };

  struct Event {
    int id = 0;
    int context = 0;
    int thread = 0;
    Clock clock = {};
  };

  struct Use {
    int buffer = 0;
    bool write = false;
  };

  struct Graph {
    int id = 0;
    int context = 0;
    int thread = 0;
    std::vector<Use> uses = {};
  };

  struct Capture {
    int lane = -1;
    bool relaxed = true;
    Graph graph = {};
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
  void one();
  PinCommand& put(PinOp op);
  PinCommand& put(PinOp op, int lane);
  void open_context(int context);

  [[nodiscard]] bool mine(int thread) const {
    return style_.synced || thread == thread_ || thread == -1;
  }

  // Whether driver calls are allowed that a global capture forbids.
  [[nodiscard]] bool free_to_call() const { return capture_.lane < 0 || capture_.relaxed; }

  static int device_of(int context) { return context == 1 ? 1 : 0; }

  int choose_lane(bool for_capture = false);
  std::vector<Buffer*> live();
  [[nodiscard]] bool in_graph(const Buffer& buffer) const;

  Buffer& by_id(int id) { return buffers_[static_cast<std::size_t>(id)]; }

  // Order.
  void put_in_order(int lane, const std::vector<UseModel>& uses, bool write);
  void record_event(int lane);
  void wait_event(int lane, const Event& event);
  void host_waits(int lane);
  bool host_waits_for_all(const std::vector<UseModel>& uses, bool write);
  void sync_context(int context);
  void share_host();

  // Buffers.
  void alloc();
  void host_access(Buffer& buffer, bool write);
  void free_plain(Buffer& buffer);
  void release(Buffer& buffer);
  void name(Buffer& buffer, int lane);
  void end_any();

  // Work.
  void work();
  void use(Buffer& buffer, int lane, PinOp op, bool write);
  void late_copy();
  void mutual();
  void captured_work();
  void capture_step();
  void end_capture();
  void graph_step();

  // Streams and contexts.
  void create_stream();
  void destroy_stream();
  void context_step();
  void forget_context(int context);

  const PinStyle& style_;
  std::mt19937_64 random_;
  Order order_;
  PinProgram program_;
  int thread_ = 0;
  int context_ = 0;
  bool context_made_ = false;
  std::vector<int> contexts_;
  std::deque<Buffer> buffers_;  // references stay good
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
  std::vector<std::vector<Clock>> visible_;  // by context
  Capture capture_;
  int next_event_ = 0, next_graph_ = 0, next_stream_ = 3, next_flag_ = 1;
};

}  // namespace custash::property
