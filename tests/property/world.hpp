// SPDX-License-Identifier: MIT
// World: a program with device memory that runs: its blocks, what uses them, and who else
// reaches them. Used by one thread at a time.
#pragma once

#include "tests/property/world_base.hpp"

namespace custash::property {

class World final : public WorldBase {
 public:
  World(const Setup& setup, sim::RaceDetector& detector);

  void check(bool exact) override;
  void release_all() override;
  void check_returned() override;

 private:
  // What another process has open: the memory that it had when it was opened.
  struct OpenObject {
    BlockObject block;
    bool freed = false;
    std::vector<sim::Touch> memory;
  };

  void before(std::size_t step) override;
  CUresult dispatch(const Command& command) override;
  void forget(int context) override;

  CUresult kernel(const Command& command, CUstream stream);
  CUresult copy(const Command& command, CUstream stream);
  CUresult allocate(const Command& command);
  CUresult release(const Command& command);
  CUresult peers(const Command& command);
  CUresult sharing(const Command& command);
  void end_sharing(int block);

  [[nodiscard]] std::uint64_t drawn_at(std::size_t step) const;
  void sleep_or_wake(std::uint64_t drawn);
  void join_visible(int context);
  void check_placement(const BlockObject& fresh);
  void look_at_memory(int id, const OpenObject& open, const BlockObject& fresh);
  [[nodiscard]] std::int64_t live_bytes(int device) const;

  std::map<int, OpenObject> open_;
  std::vector<void*> hosts_;
  std::vector<Bytes> used_at_start_;
};

}  // namespace custash::property
