// SPDX-License-Identifier: MIT
// WorldBase: what a program has while it runs, whatever its memory is (contexts, streams,
// events, captures and graphs), and these commands as calls at a door. Used by one thread at a
// time.
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

class WorldBase {
 public:
  virtual ~WorldBase();
  WorldBase(const WorldBase&) = delete;
  WorldBase& operator=(const WorldBase&) = delete;

  // Called on the command's own thread.
  CUresult run(const Command& command, std::size_t step);
  // Ends what the program has left open and looks at what remains.
  void finish();
  // The parts of finish(): what must hold at any time; everything freed, waited for and given
  // back; and nothing left. `exact`: no call of custash's has failed.
  virtual void check(bool exact) = 0;
  virtual void release_all() = 0;
  virtual void check_returned() = 0;

  // Notes the first violation.
  void fail(Violation kind, const std::string& text);

  [[nodiscard]] bool failed() const { return kind_ != Violation::None; }

  [[nodiscard]] Violation kind() const { return kind_; }

  [[nodiscard]] const std::string& text() const { return text_; }

 protected:
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

  // Begins a simulated world with a primary context on each of two devices. `options`: beyond
  // those that the setup has.
  WorldBase(const Setup& setup, sim::RaceDetector& detector, sim::Options options);
  void open_door();

  // What happens before a command.
  virtual void before(std::size_t) {}

  virtual CUresult dispatch(const Command& command);
  // Before a context ends: what of it only the derived class knows is gone.
  virtual void forget(int context) = 0;
  virtual CUresult destroy_context(int context, CUcontext handle);

  bool use_context(int context);
  [[nodiscard]] const CUstream* stream(const Command& command) const;
  // The stream whose capture the command is part of; -1: none.
  [[nodiscard]] int origin_of(const Command& command) const;
  BlockObject* block(int id);
  void check_overlap(const BlockObject& fresh);
  void note_visible(int context, CUstream stream);
  [[nodiscard]] std::vector<sim::OpId> visible_of(int context) const;
  CUresult events(const Command& command);
  CUresult graphs(const Command& command);
  void end_graphs();
  void wait_for_contexts(const char* failure);

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
  std::vector<Visible> visible_;

 private:
  CUresult make_stream(const Command& command);
  CUresult destroy_stream(const Command& command);
  CUresult create_context(int context);
  CUresult end_context(int context);
  CUresult end_capture(int stream, int graph);
  CUresult wait_for_stream(int context, int waiting, int other);
  CUresult destroy_graph(GraphObject& object, bool executable);
  void destroy_graphs(int context);

  int resets_ = 0;  // of primary contexts, whose handles stay
  Violation kind_ = Violation::None;
  std::string text_;
};

// The world of the program's kind of memory.
std::unique_ptr<WorldBase> world_of(const Program& program,
                                    const Setup& setup,
                                    sim::RaceDetector& detector);

}  // namespace custash::property
