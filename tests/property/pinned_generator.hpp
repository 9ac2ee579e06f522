// SPDX-License-Identifier: MIT
// PinnedGenerator: builds a program with pinned memory command by command. Before work or the
// host touches a buffer, whatever is missing in the order is put in. One program each; no lock.
#pragma once

#include "tests/property/frame.hpp"
#include "tests/property/pinned_program.hpp"

#include <deque>
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
  int turns = 25;     // how often another thread goes on, of 100
  int syncs = 2;      // how often the host waits, of 10
  std::vector<Bytes> sizes = {};
  std::vector<unsigned> flags = {};
};

PinStyle pinned_style(std::uint64_t seed);

struct PinUse {
  int buffer = 0;
  bool write = false;
};

struct PinGraph {
  int id = 0;
  int context = 0;
  int thread = 0;
  std::vector<PinUse> uses = {};
};

struct PinKind {
  using Op = PinOp;
  using Command = PinCommand;
  using Program = PinProgram;
  using Style = PinStyle;
  using Graph = PinGraph;
};

class PinnedGenerator : private Frame<PinKind> {
 public:
  PinnedGenerator(std::uint64_t seed, const PinStyle& style) : Frame(seed, style) {}

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

  void turn();
  void one();
  std::vector<Buffer*> live();
  [[nodiscard]] bool in_graph(const Buffer& buffer) const;

  Buffer& by_id(int id) { return buffers_[static_cast<std::size_t>(id)]; }

  bool host_waits_for_all(const std::vector<UseModel>& uses, bool write);

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
  void destroy_stream();
  void context_step();
  void forget_context(int context);

  std::deque<Buffer> buffers_;  // references stay good
};

}  // namespace custash::property
