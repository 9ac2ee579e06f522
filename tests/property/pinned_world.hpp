// SPDX-License-Identifier: MIT
// PinnedWorld: a program with pinned memory that runs, bare or through the cache as the doors
// of interpose/ lead it: its buffers, and what uses them. Used by one thread at a time.
#pragma once

#include "pinned/host_cache.hpp"
#include "tests/property/world_base.hpp"

#include <tuple>

namespace custash::property {

class PinnedWorld final : public WorldBase {
 public:
  PinnedWorld(const Setup& setup, sim::RaceDetector& detector);

  void check(bool exact) override;
  void release_all() override;
  void check_returned() override;

 private:
  struct Freed {
    BlockObject buffer;
    sim::ThreadId thread = 0;
  };

  CUresult dispatch(const Command& command) override;
  void forget(int context) override;
  CUresult destroy_context(int context, CUcontext handle) override;

  CUresult alloc(const Command& command);
  CUresult end_buffer(const Command& command);
  CUresult work(const Command& command, CUstream stream);
  CUresult kernel(const Command& command, CUstream stream);
  CUresult end_capture(const Command& command);
  CUresult end_graph(const Command& command);
  CUresult waited(CUresult result);
  void host_access(const Command& command);
  Address own_memory(const Command& command);
  void check_placement(const BlockObject& fresh);
  void hand_over(const BlockObject& fresh);
  void free_all_kept(int context);
  CUresult empty();
  // As the service's thread does.
  void look_for_idle_buffers();

  HostCache* cache_ = nullptr;  // never destroyed, as in the product; null: bare
  std::map<std::tuple<int, int, sim::ThreadId>, Address> memory_;  // by context, stream, thread
  std::vector<BlockObject> kept_;  // bare: freed, work of others may go on
  std::vector<Freed> freed_;
};

}  // namespace custash::property
