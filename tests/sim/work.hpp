// SPDX-License-Identifier: MIT
// Work on the device: what is submitted (Work), an accepted operation (Op), and a stream's
// queue (Stream). Owned by the world and guarded by its lock.
#pragma once

#include "tests/sim/observer.hpp"
#include "tests/sim/sim.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda.h>

namespace custash::sim {

struct Context;
struct Capture;
struct Stream;

using NodeId = std::uint64_t;  // of a graph; never used again

// What a program may ask of a graph's node: the member of its type.
struct NodeAnswer {
  CUDA_KERNEL_NODE_PARAMS_v1 kernel{};  // its arguments live as long as the node
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
};

// What an operation does; a graph's nodes are Works too.
struct Work {
  std::string name = {};
  std::vector<Access> accesses = {};
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;  // as a node, where it tells no other way
  std::shared_ptr<const NodeAnswer> answer = {};    // null: a test describes it itself
  bool kernel = false;  // kernels reach other devices only with peer access; copies always
  // A programmatic dependent launch: it may run beside the kernel before it in its stream.
  bool early = false;
  Nanoseconds duration = 0;
  std::vector<int> needs = {};
  std::vector<int> sets = {};
  std::function<void()> body = {};  // run with the world locked, in data mode or from a test
  std::function<void()> host = {};  // a host function: run unlocked
};

struct Op {
  enum class State { Waiting, Running, Calling, Done };

  OpId id = 0;
  Stream* stream = nullptr;  // null: a context's own marker
  std::uint64_t context_id = 0;
  CUcontext context = nullptr;
  int device = 0;
  std::vector<OpId> after = {};
  State state = State::Waiting;
  Nanoseconds submitted = 0;
  Nanoseconds finish = 0;
  Work work = {};
  std::vector<Touch> touches = {};  // as translated at the submission
  bool faulty = false;              // said so already
  CUevent event = nullptr;          // recorded by it
  std::uint64_t event_serial = 0;
};

enum class StreamKind { Legacy, PerThread, Blocking, NonBlocking };

struct Stream {
  std::uint64_t id = 0;
  CUstream handle = nullptr;
  Context* context = nullptr;
  StreamKind kind = StreamKind::Blocking;
  unsigned flags = 0;
  int priority = 0;
  bool held = false;
  bool destroyed = false;
  bool active = false;  // is in the world's list of streams with work
  std::deque<OpId> queue = {};
  OpId last = 0;
  bool last_is_kernel = false;
  std::vector<OpId> before_kernel = {};  // then: what that one comes after
  Nanoseconds last_finish = 0;
  Capture* capture = nullptr;
  std::vector<NodeId> tips = {};  // nodes that the next captured one comes after

  bool blocking() const {
    return kind == StreamKind::Blocking || kind == StreamKind::PerThread;
  }
};

}  // namespace custash::sim
