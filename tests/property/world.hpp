// SPDX-License-Identifier: MIT
// World: the objects of a program that runs (streams, blocks, events, graphs …), and each of
// its commands as calls at a door. Used by one thread at a time.
#pragma once

#include "tests/property/door.hpp"
#include "tests/property/execute.hpp"
#include "tests/sim/green.hpp"
#include "tests/sim/race_detector.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace custash::property {

class World {
 public:
  World(const Setup& setup, sim::RaceDetector& detector);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Called on the command's own thread.
  CUresult run(const Command& command, std::size_t step);
  // Ends what the program has left open and looks at what remains.
  void finish();
  // The parts of finish(): what must hold at any time; everything freed, waited for and given
  // back; and nothing left.
  void check(bool exact = true);
  void release_all();
  void check_returned();

  // Notes the first violation.
  void fail(Violation kind, const std::string& text);

  [[nodiscard]] bool failed() const { return kind_ != Violation::None; }

  [[nodiscard]] Violation kind() const { return kind_; }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] std::uint64_t drawn_at(std::size_t step) const;
  void sleep_or_wake(std::uint64_t drawn);
  [[nodiscard]] bool has_large_pages() const;

  struct StreamObject {
    CUstream handle = nullptr;
    int context = 0;
    sim::GreenContext green = {};
    int origin = -1;  // the stream whose capture it is drawn into, or itself; -1: none

    [[nodiscard]] bool capturing() const { return origin >= 0; }
  };

  struct BlockObject {
    Address address = 0;
    Bytes bytes = 0;
    int context = 0;
  };

  struct EventObject {
    CUevent handle = nullptr;
    int context = 0;
  };

  struct GraphObject {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    int context = 0;
    std::vector<int> blocks = {};
  };

  // Work that the host can see and that is not known to be over.
  struct Visible {
    int context;
    sim::OpId op;
  };

  // What another process has open: the memory that it had when it was opened.
  struct OpenObject {
    BlockObject block;
    bool freed = false;
    std::vector<sim::Touch> memory;
  };

  CUresult dispatch(const Command& command);
  CUresult kernel(const Command& command, CUstream stream);
  CUresult copy(const Command& command, CUstream stream);
  CUresult launch(const Command& command, CUstream stream);
  CUresult events(const Command& command);
  CUresult graphs(const Command& command);
  CUresult lifetimes(const Command& command);
  CUresult allocate(const Command& command);
  CUresult release(const Command& command);
  CUresult end_capture(int stream, int graph);
  CUresult wait_for_stream(int context, int waiting, int other);
  CUresult peers(const Command& command);
  CUresult sharing(const Command& command);
  CUresult destroy_graph(GraphObject& object, bool executable);
  void destroy_graphs(int context);
  void end_sharing(int block);

  bool use_context(int context);
  CUresult make_stream(const Command& command);
  CUresult destroy_stream(int id);
  [[nodiscard]] const CUstream* stream(const Command& command);
  BlockObject* block(int id);
  void note_visible(int context, CUstream stream);
  void join_visible(int context);
  void check_placement(const BlockObject& fresh);
  void look_at_memory(int id, const OpenObject& open, const BlockObject& fresh);
  [[nodiscard]] std::int64_t live_bytes(int device) const;

  const Setup& setup_;
  sim::RaceDetector& detector_;
  std::unique_ptr<Door> door_;
  std::map<int, CUcontext> contexts_;
  std::set<int> contexts_used_;
  std::map<int, StreamObject> streams_;
  std::map<int, BlockObject> blocks_;
  std::map<int, EventObject> events_;
  std::map<int, GraphObject> graphs_;
  std::map<int, std::vector<int>> captured_;  // by the capture's origin: the blocks named
  // No more the program's, but used, while one of its graphs is there.
  std::map<int, BlockObject> held_;
  std::map<int, OpenObject> open_;
  std::vector<void*> hosts_;
  std::vector<Address> kept_;  // bare: freed on a stream
  std::vector<Visible> visible_;
  std::vector<Bytes> used_at_start_;
  Violation kind_ = Violation::None;
  std::string text_;
};

}  // namespace custash::property
