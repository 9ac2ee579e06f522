// SPDX-License-Identifier: MIT
// Sleeping: what the facade keeps for sleep: where contents go, and who is at work. Atomics.
#pragma once

#include "allocator/memory/host_store.hpp"
#include "allocator/memory/mapped_memory.hpp"

#include <atomic>

namespace custash {

class Sleeping {
 public:
  explicit Sleeping(const Driver& driver) : driver_store_(driver) {}

  [[nodiscard]] HostStore& store() const { return *store_; }

  // Set once, before anything sleeps.
  void set_store(HostStore& store) { store_ = &store; }

  // The same. Null: the program's own mappings stay awake.
  void set_mapped(MappedMemory& mapped) { mapped_ = &mapped; }

  [[nodiscard]] MappedMemory* mapped() const { return mapped_; }

  // One thread at a time takes host memory for contents, or releases it.
  class Turn {
   public:
    explicit Turn(Sleeping& of) : of_(of), mine_(!of.taken_.exchange(true)) {}

    ~Turn() {
      if (mine_) of_.taken_.store(false);
    }

    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    explicit operator bool() const { return mine_; }

   private:
    Sleeping& of_;
    const bool mine_;
  };

  // From then on waking is given up: the process ends.
  std::atomic<Nanoseconds> give_up_at{~Nanoseconds{0}};

  [[nodiscard]] bool ends() const { return give_up_at.load() != ~Nanoseconds{0}; }

 private:
  std::atomic<bool> taken_{false};
  DriverHostStore driver_store_;
  HostStore* store_ = &driver_store_;
  MappedMemory* mapped_ = nullptr;
};

}  // namespace custash
