// SPDX-License-Identifier: MIT
// Events, contexts, devices, captures, graphs and modules. Owned by the world, guarded by its
// lock.
#pragma once

#include "tests/sim/graph_objects.hpp"
#include "tests/sim/space.hpp"
#include "tests/sim/work.hpp"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <cuda.h>

namespace custash::sim {

struct Event {
  std::uint64_t serial = 0;
  std::uint64_t context_id = 0;
  int device = 0;
  unsigned flags = 0;
  OpId recorded = 0;  // 0: never
  Nanoseconds finish = 0;
  std::uint64_t capture_id = 0;  // the last record went into a capture
  std::vector<NodeId> capture_nodes = {};
};

struct Capture {
  std::uint64_t id = 0;
  std::uint64_t context_id = 0;
  Stream* origin = nullptr;
  ThreadId thread = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool valid = true;
  std::vector<Stream*> streams = {};
  CUgraph graph = nullptr;
  bool into_existing = false;  // BeginCaptureToGraph
};

// A slab of the driver: 2 MiB from which requests up to 1 MiB are cut.
struct Slab {
  Address base = 0;
  std::uint64_t physical = 0;
  std::map<Bytes, Bytes> holes = {};  // offset -> size
  Bytes last_freed = ~Bytes{0};
  Bytes bump = 0;  // AddressReuse::Never
  int live = 0;
};

struct Context {
  std::uint64_t id = 0;
  CUcontext handle = nullptr;
  // Whose memory, events and errors it uses: itself, or of a green context the primary one.
  Context* home = this;
  int device = 0;
  bool primary = false;
  unsigned flags = 0;
  Bytes memory = 0;  // of the device, for itself
  CUresult sticky = CUDA_SUCCESS;
  bool ending = false;                // a thread stands in the call that destroys it
  std::vector<Context*> greens = {};  // of a primary one

  bool green() const { return home != this; }

  // Its copies and fills are over when they return, unless asynchronous by name.
  // CU_CTX_SYNC_MEMOPS, which CUDA 11.8 has no name for.
  bool sync_memops() const { return (home->flags & 0x80U) != 0; }

  std::unique_ptr<Stream> legacy = {};
  std::map<ThreadId, std::unique_ptr<Stream>> per_thread = {};
  std::vector<Stream*> streams = {};                // created by the program
  std::vector<std::unique_ptr<Stream>> dying = {};  // destroyed with work to do
  std::vector<OpId> orphans = {};  // last ops of destroyed streams, for context records
  std::vector<OpId> orphans_blocking = {};  // the same, for the legacy stream
  std::vector<OpId> guests =
      {};             // copies by other contexts, which frees of its memory wait for
  OpId barrier = 0;   // the last context wait
  OpId recorded = 0;  // the newest context record
  std::set<std::uint64_t> peers = {};  // contexts whose memory it may access
  std::vector<std::unique_ptr<Slab>> slabs = {};
};

struct KernelInfo {
  std::string name;
  const custash_sim_kernel* body = nullptr;
  CUmodule module = nullptr;
  bool of_library = false;        // a CUkernel
  CUfunction function = nullptr;  // of a CUkernel, once it was asked for
};

struct Module {
  std::uint64_t context_id = 0;  // 0: a library
  int device = 0;
  Bytes memory = 0;  // of the device
  std::map<std::string, CUfunction> functions = {};
  std::map<std::string, Address> globals = {};
};

struct Pool {
  struct Free {
    Address address;
    Bytes bytes;
    OpId op;
    std::uint64_t stream_id;
  };

  int device = 0;
  bool is_default = false;
  std::uint64_t release_threshold = 0;
  std::array<bool, 3> reuse = {true, true, true};
  Bytes most = 0;  // to reserve; 0: no limit
  std::vector<Free> free = {};
  std::vector<std::unique_ptr<Slab>> slabs = {};
  Bytes reserved = 0;
  Bytes reserved_high = 0;
  Bytes in_use = 0;
  Bytes in_use_high = 0;
  int live = 0;
};

// External: memory of another interface, which has none of its own here.
enum class ArrayKind { Plain, Mipmapped, External };

struct Array {
  ArrayKind kind = ArrayKind::Plain;
  Address address = 0;
  std::uint64_t context_id = 0;
  Bytes pitch = 0;
  Bytes height = 0;     // of a plane, in rows
  bool sparse = false;  // or mapped later: it has the memory of a handle, or none
  CUmemGenericAllocationHandle mapped = 0;
};

struct Multicast {
  struct Bound {
    int device;
    Bytes at;
    Bytes bytes;
    CUmemGenericAllocationHandle memory;
  };

  unsigned devices = 0;
  Bytes size = 0;
  std::set<int> added = {};
  std::vector<Bound> bound = {};
};

// Memory of cuMemAlloc that cuMemFreeAsync was given.
struct PlainFree {
  Address address = 0;
  std::uint64_t buffer_id = 0;
  OpId op = 0;
};

struct DeviceState {
  CUcontext primary = nullptr;  // the handle, kept over resets
  int primary_references = 0;
  unsigned primary_flags = 0;
  Bytes used = 0;
  Bytes managed = 0;  // of it
  Bytes of_graphs = 0;
  CUmemoryPool default_pool = nullptr;
  CUmemoryPool pool = nullptr;
};

}  // namespace custash::sim
