// SPDX-License-Identifier: MIT
#include "tests/property/kinds.hpp"

#include "tests/property/program.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace custash::property {
namespace {

enum Kind {
  Threads,
  ThreadsUnsynced,
  ThreadsEnd,
  Devices,
  Green,
  CreatedContexts,
  ContextsEnd,
  Peers,
  ReachedByKernels,
  CopiesAcross,
  Captures,
  Drawn,
  CapturesOverDevices,
  MemoryOfCaptures,
  MemoryBeside,
  WorkOfOthers,
  GraphsAbroad,
  GraphMemoryFreed,
  EarlyLaunches,
  Ipc,
  FreedWhileOpen,
  Cards,
  NearlyFull,
  Mutual,
  Kinds
};

static_assert(Kinds <= kMostKinds);

const char* const kNames[Kinds] = {"several threads",
                                   "threads that do not wait for each other",
                                   "threads that end",
                                   "two devices",
                                   "streams of green contexts",
                                   "created contexts",
                                   "contexts that end",
                                   "peer access",
                                   "kernels on a peer's memory",
                                   "copies across contexts",
                                   "captures",
                                   "captures over several streams",
                                   "captures over devices",
                                   "memory of captures",
                                   "memory beside captures",
                                   "captures that other threads work for",
                                   "graphs launched in other contexts",
                                   "memory freed while its graph is there",
                                   "early launches",
                                   "IPC",
                                   "blocks freed while another process has them open",
                                   "blocks given to cards",
                                   "a nearly full device",
                                   "kernels that need each other"};

// Follows a program and notes what it sees.
class Look {
 public:
  void at(const Command& c) {
    kinds_.insert(c.thread != 0 ? Threads : Kinds);
    kinds_.insert(device_of(c.context) != 0 ? Devices : Kinds);
    switch (c.op) {
      case Op::CreateStream:
        if (c.flags == 2) note(Green);
        return;
      case Op::EndThread:
        return note(ThreadsEnd);
      case Op::CreateContext:
        return note(CreatedContexts);
      case Op::DestroyContext:
        return note(ContextsEnd);
      case Op::EnablePeer:
        return note(Peers);
      case Op::Malloc:
      case Op::MallocAsync:
        homes_[c.block] = c.context;
        if (!capture_.empty())
          note(capture_.count(c.stream) != 0 ? MemoryOfCaptures : MemoryBeside);
        return;
      case Op::CopyBlock:
        if (homes_[c.block] != homes_[c.other]) note(CopiesAcross);
        return;
      case Op::Share:
        open_.insert(c.block);
        return note(Ipc);
      case Op::Unshare:
        open_.erase(c.block);
        return;
      case Op::Leave:
        return note(Cards);
      case Op::Free:
        if (open_.count(c.block) != 0) note(FreedWhileOpen);
        if (of_graphs_.count(c.block) != 0) note(GraphMemoryFreed);
        return;
      case Op::Kernel:
        return at_kernel(c);
      default:
        return at_graph(c);
    }
  }

  [[nodiscard]] const std::set<int>& kinds() const { return kinds_; }

  void note(Kind kind) { kinds_.insert(kind); }

 private:
  void at_kernel(const Command& c) {
    if (c.flags == 1) note(EarlyLaunches);
    if (c.needs != 0) note(Mutual);
    for (const Use& use : c.uses) {
      if (homes_[use.block] != c.context) note(ReachedByKernels);
      if (capture_.count(c.stream) == 0) continue;
      named_.insert(use.block);
      if (c.thread != capturing_) note(WorkOfOthers);
    }
  }

  void at_graph(const Command& c) {
    if (c.op == Op::CaptureBegin) {
      note(Captures);
      capture_ = {{c.stream, c.context}};
      capturing_ = c.thread;
      named_.clear();
    } else if (c.op == Op::StreamWait && capture_.count(c.other) != 0) {
      note(Drawn);
      if (device_of(capture_[c.other]) != device_of(c.context)) note(CapturesOverDevices);
      capture_[c.stream] = c.context;
    } else if (c.op == Op::CaptureEnd) {
      graphs_[c.other] = {c.context, named_};
      capture_.clear();
      count_blocks();
    } else if (c.op == Op::Launch) {
      if (graphs_[c.other].context != c.context) note(GraphsAbroad);
    } else if (c.op == Op::DestroyExec) {
      graphs_.erase(c.other);
      count_blocks();
    }
  }

  void count_blocks() {
    of_graphs_.clear();
    for (const auto& [id, graph] : graphs_)
      of_graphs_.insert(graph.blocks.begin(), graph.blocks.end());
  }

  struct Graph {
    int context = 0;
    std::set<int> blocks = {};
  };

  std::set<int> kinds_;
  std::map<int, int> homes_;    // of blocks: their contexts
  std::map<int, int> capture_;  // its streams, and their contexts
  int capturing_ = 0;           // the thread that began it
  std::set<int> named_;         // blocks that it names
  std::map<int, Graph> graphs_;
  std::set<int> of_graphs_;  // blocks
  std::set<int> open_;       // blocks
};

}  // namespace

void count_kinds(const Program& program, KindCounts* counts) {
  Look look;
  for (const Command& command : program.commands)
    look.at(command);
  if (program.threads > 1 && !program.synced) look.note(ThreadsUnsynced);
  if (program.memory != 0) look.note(NearlyFull);
  for (const int kind : look.kinds()) {
    if (kind != Kinds) ++(*counts)[static_cast<std::size_t>(kind)];
  }
}

std::string tell_kinds(const KindCounts& counts) {
  std::string text;
  for (std::size_t kind = 0; kind < Kinds; ++kind)
    text += (text.empty() ? "" : "; ") + std::to_string(counts[kind]) + " " + kNames[kind];
  return text;
}

std::string missing_kinds(const KindCounts& counts) {
  std::string text;
  for (std::size_t kind = 0; kind < Kinds; ++kind) {
    if (counts[kind] == 0) text += (text.empty() ? "" : "; ") + std::string(kNames[kind]);
  }
  return text;
}

}  // namespace custash::property
