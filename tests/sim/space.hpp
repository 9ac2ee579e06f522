// SPDX-License-Identifier: MIT
// Addresses and what lies behind them: the address space (reserve, give back), physical memory
// (numbers; in data mode offsets of a memory file that is mapped at the device addresses), and
// the regions that translate the one into the other. Owned by the world, guarded by its lock.
#pragma once

#include "tests/sim/sim.hpp"

#include <map>
#include <vector>

namespace custash::sim {

// A range with memory behind it.
struct Region {
  Address base = 0;
  Bytes size = 0;       // what may be touched
  Bytes requested = 0;  // what the program asked for
  Origin origin = Origin::Alloc;
  int device = 0;
  std::uint64_t context_id = 0;  // dies with it; 0: outlives contexts
  std::uint64_t buffer_id = 0;
  std::uint64_t physical = 0;
  Bytes charged = 0;         // device memory counted for it alone
  std::uint64_t access = 0;  // VMM: bit a device
  std::uint64_t handle = 0;  // VMM: its physical handle; pool blocks: the pool
  unsigned host_flags = 0;
  bool registered = false;                              // host memory of the program's own
  bool shared = false;                                  // opened from another process's handle
  unsigned opens = 0;                                   // so many times
  std::uint64_t source_process = 0, source_buffer = 0;  // what the handle named
  bool freed = false;  // stream-ordered memory that waits in its pool
  bool sync_memops = false;
};

// Pinned memory, as the driver's: zeros, and children of a fork share it. 0 where there is
// none.
Address map_host(Bytes bytes);
void unmap_host(Address base, Bytes bytes);

class Space {
 public:
  Space(const Options& options);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  // At `hint`, or beyond what lies there; anywhere where it is 0. 0 where there is no room.
  Address reserve(Bytes bytes, Bytes alignment, Address hint = 0);
  void give_back(Address address, Bytes bytes);

  std::uint64_t make_physical(Bytes bytes);
  void drop_physical(std::uint64_t physical, Bytes bytes);

  // Data mode: makes the bytes visible at the address, or takes them away again.
  // From another simulator's file where one is given.
  bool map(Address address, Bytes bytes, std::uint64_t physical, int file = -1);
  void unmap(Address address, Bytes bytes);

  bool data() const { return data_; }

  int file() const { return file_; }

  // Whether it is an address of the device's, mapped or not.
  bool owns(Address address) const;

 private:
  Address fresh(Bytes bytes, Bytes alignment);
  Address place(Bytes bytes, Bytes alignment, Address hint);

  struct Chunk {
    Address base;
    Bytes size;
  };

  bool data_;
  AddressReuse reuse_;
  int file_ = -1;
  Address bump_ = 0;
  Address end_ = 0;
  std::uint64_t next_physical_ = 2_MiB;
  std::map<Bytes, std::vector<Address>> freed_;
  std::vector<Chunk> chunks_;
  std::vector<Chunk> placed_;  // by hints
};

}  // namespace custash::sim
