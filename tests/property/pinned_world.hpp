// SPDX-License-Identifier: MIT
// PinnedWorld: the objects of a program with pinned memory that runs, bare or through the cache
// as the doors of interpose/ lead it, and each of its commands as calls. One thread at a time.
#pragma once

#include "pinned/host_cache.hpp"
#include "tests/property/execute.hpp"
#include "tests/property/pinned_program.hpp"
#include "tests/sim/race_detector.hpp"

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace custash::property {

struct PinSetup {
  bool bare = true;
  Config config = {};
  bool fast = false;  // the calls that do without the driver first, as the runtime's door does
  bool registered = false;  // new memory is mapped and registered; else the driver's own
  bool context_events = true;
  bool looks = false;  // the service's thread looks for idle buffers
  bool tight = false;  // a limit is set: an allocation may fail, and nothing else may go wrong
  sim::Advance advance = sim::Advance::Told;
  std::uint64_t seed = 1;

  // How the same program is run to tell whether it is right.
  [[nodiscard]] PinSetup as_bare() const {
    PinSetup out;
    out.advance = advance;
    out.seed = seed;
    return out;
  }
};

std::string to_string(const PinSetup& setup);

class PinnedWorld {
 public:
  PinnedWorld(const PinSetup& setup, sim::RaceDetector& detector);
  ~PinnedWorld();
  PinnedWorld(const PinnedWorld&) = delete;
  PinnedWorld& operator=(const PinnedWorld&) = delete;

  // Called on the command's own thread.
  CUresult run(const PinCommand& command, std::size_t step);
  // Ends what the program has left open; then nothing may be held any more.
  void finish();
  void release_all();
  void check(bool exact);
  void check_returned();

  // Around each call of the cache and the core, for who makes driver calls fail in turn.
  std::function<void()> before_ours = [] {};
  std::function<void()> after_ours = [] {};

  void fail(Violation kind, const std::string& text);

  [[nodiscard]] bool failed() const { return kind_ != Violation::None; }

  [[nodiscard]] Violation kind() const { return kind_; }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Stream {
    CUstream handle = nullptr;
    int context = 0;
    bool capturing = false;
  };

  struct Buffer {
    void* address = nullptr;
    Bytes bytes = 0;
    int context = 0;
  };

  struct Graph {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    int context = 0;
    std::vector<int> buffers = {};
  };

  struct Freed {
    Address address = 0;
    Bytes bytes = 0;
    sim::ThreadId thread = 0;
  };

  CUresult dispatch(const PinCommand& command);
  CUresult alloc(const PinCommand& command);
  CUresult end_buffer(const PinCommand& command);
  CUresult work(const PinCommand& command, CUstream stream);
  CUresult waited(CUresult result);
  CUresult streams(const PinCommand& command);
  CUresult events(const PinCommand& command, CUstream stream);
  CUresult graphs(const PinCommand& command);
  CUresult end_capture(int stream, int graph);
  CUresult create_context(int context);
  CUresult end_context(int context);

  bool use_context(int context);
  const CUstream* stream(const PinCommand& command);
  Buffer* buffer(int id);
  Address own_memory(const PinCommand& command);
  void check_placement(const Buffer& fresh);
  void hand_over(const Buffer& fresh);
  void free_all_kept(int context);

  // A call of the program that submits work, as the hooks make it.
  template <typename Call>
  CUresult submit(CUstream stream, SubmissionKind view, Address touched, const Call& call);
  template <typename Call>
  auto ours(const Call& call);
  // As the service's thread does.
  void look_for_idle_buffers();

  const PinSetup& setup_;
  sim::RaceDetector& detector_;
  Driver* driver_ = nullptr;  // these three are never destroyed, as in the product
  Allocator* core_ = nullptr;
  HostCache* cache_ = nullptr;
  std::uint64_t epoch_ = 0;  // of the contexts' handles
  std::map<int, CUcontext> contexts_;
  std::map<int, Stream> streams_;
  std::map<int, Buffer> buffers_;
  std::map<int, std::pair<CUevent, int>> events_;  // and the context
  std::map<int, Graph> graphs_;
  std::map<int, std::vector<int>> captured_;  // by stream: the buffers named
  std::map<std::tuple<int, int, sim::ThreadId>, Address> memory_;  // by context, stream, thread
  std::vector<std::pair<int, sim::OpId>> visible_;                 // context, operation
  std::vector<std::pair<int, void*>> kept_;  // bare: freed, work of others may go on
  std::vector<Freed> freed_;
  Violation kind_ = Violation::None;
  std::string text_;
};

}  // namespace custash::property
