// SPDX-License-Identifier: MIT
// Uses in graphs: wrong in one way each, and right.
#include "tests/process/streams/bed.hpp"

#include <cstring>
#include <vector>

namespace check_streams {
namespace {

CUgraph using_it(CUdeviceptr block) {
  return captured([&](CUstream s) { use(block, s); });
}

CUgraph empty() {
  CUgraph out = nullptr;
  CALL(cuGraphCreate, &out, 0U);
  return out;
}

constexpr const CUgraphNode* kFirst = nullptr;
constexpr std::size_t kNone = 0;

CUgraphNode with_child(CUgraph graph, CUgraph child) {
  CUgraphNode node = nullptr;
  CALL(cuGraphAddChildGraphNode, &node, graph, kFirst, kNone, child);
  return node;
}

CUgraph with_child_using(CUdeviceptr block) {
  CUgraph graph = empty();
  with_child(graph, using_it(block));
  return graph;
}

CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr block) {
  return {.dst = block, .pitch = 0, .value = 1, .elementSize = 1, .width = kBytes, .height = 1};
}

CUDA_MEMCPY3D copy_between(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = kBytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

// A kernel's node by hand. The versions of the call differ in what follows `base`.
struct Params {
  CUDA_KERNEL_NODE_PARAMS_v1 base{};
  void* kernel = nullptr;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  void* words[1] = {&block};

  explicit Params(CUdeviceptr to) : block(to) {
    base.func = function("one");
    base.gridDimX = base.gridDimY = base.gridDimZ = 1;
    base.blockDimX = base.blockDimY = base.blockDimZ = 1;
    base.kernelParams = words;
  }

  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  ~Params() = default;
};

CUgraphNode with_kernel(CUgraph graph, CUdeviceptr block) {
  CUgraphNode node = nullptr;
  const Params params(block);
  CALL(cuGraphAddKernelNode, &node, graph, kFirst, kNone, &params.base);
  return node;
}

// CUgraphNodeParams.
struct AnyNode {
  int type;
  int reserved[3];

  union {
    unsigned char room[240];
    CUDA_MEMSET_NODE_PARAMS fill;
    CUgraph child;
  };
};

CUgraph copying(CUdeviceptr to, CUdeviceptr from) {
  CUgraph graph = empty();
  CUgraphNode node = nullptr;
  const CUDA_MEMCPY3D copy = copy_between(to, from);
  CALL(cuGraphAddMemcpyNode, &node, graph, kFirst, kNone, &copy, context);
  return graph;
}

CUgraph filling(CUdeviceptr block) {
  CUgraph graph = empty();
  CUgraphNode node = nullptr;
  const CUDA_MEMSET_NODE_PARAMS fill = fill_of(block);
  CALL(cuGraphAddMemsetNode, &node, graph, kFirst, kNone, &fill, context);
  return graph;
}

CUgraphNode first_of(CUgraph graph) {
  std::size_t one = 1;
  CUgraphNode node = nullptr;
  CALL(cuGraphGetNodes, graph, &node, &one);
  return node;
}

// The driver's code.
int update(CUgraphExec exec, CUgraph to) {
  unsigned long long told[4] = {};  // CUgraphExecUpdateResultInfo
  return call("cuGraphExecUpdate_v2", exec, to, static_cast<void*>(told));
}

// ---- Wrong in one way, and right: the three kinds.

// A graph of `make(two)` runs beside the free, or before it.
template <typename Make>
void free_beside(bool right, Make make) {
  Two two;
  run(executable(make(two)), two.b);
  if (right) order(two.b, two.a);
  free_on(two.block, two.a);
}

void free_beside_kernel(bool right) {
  free_beside(right, [](const Two& two) { return using_it(two.block); });
}

void free_beside_copy(bool right) {
  free_beside(right, [](const Two& two) {
    return captured(
        [&](CUstream s) { CALL(cuMemcpyDtoHAsync_v2, pinned(), two.block, kBytes, s); });
  });
}

void free_beside_rows(bool right) {
  free_beside(right, [](const Two& two) { return copying(plain(), two.block); });
}

void free_beside_memset(bool right) {
  free_beside(right, [](const Two& two) { return filling(two.block); });
}

// Two graphs deep.
void free_beside_child(bool right) {
  free_beside(right, [](const Two& two) {
    CUgraph graph = empty();
    with_child(graph, with_child_using(two.block));
    return graph;
  });
}

void free_beside_struct(bool right) {
  free_beside(right, [](const Two& two) {
    by_struct_often(two.block, two.a);
    order(two.a, two.b);
    return captured([&](CUstream s) { by_struct(two.block, s); });
  });
}

void after_free(bool right) {
  Two two;
  const CUgraphExec graph = executable(using_it(two.block));
  if (right) run(graph, two.a);
  free_on(two.block, two.a);
  if (!right) run(graph, two.a);
}

void before_allocation(bool right) {
  const CUstream a = stream();
  const CUstream b = stream();
  const CUgraphExec graph = executable(using_it(on(a)));
  if (right) order(a, b);
  run(graph, b);
}

// ---- Executables that change: they come to name a freed block, or to name none.

template <typename Change>
void changed(bool right, CUgraph (*make)(CUdeviceptr), Change change) {
  Two two;
  const CUdeviceptr freed = on(two.a);
  const CUgraph graph = make(right ? freed : two.block);
  const CUgraphExec exec = executable(graph);
  run(exec, two.a);
  free_on(freed, two.a);
  change(exec, first_of(graph), right ? two.block : freed);
  run(exec, two.a);
}

void set_kernel(bool right) {
  changed(right, using_it, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    const Params params(to);
    CALL(cuGraphExecKernelNodeSetParams, exec, node, &params.base);
  });
}

void set_kernel_v2(bool right) {
  changed(right, using_it, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    const Params params(to);
    CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, static_cast<const void*>(&params));
  });
}

// Of before the free, or it may be the freed block again.
CUdeviceptr source() {
  static const CUdeviceptr kept = plain();
  return kept;
}

void set_copy(bool right) {
  const auto make = [](CUdeviceptr block) { return copying(block, source()); };
  changed(right, make, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    const CUDA_MEMCPY3D copy = copy_between(to, source());
    CALL(cuGraphExecMemcpyNodeSetParams, exec, node, &copy, context);
  });
}

void set_fill(bool right) {
  changed(right, filling, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(to);
    CALL(cuGraphExecMemsetNodeSetParams, exec, node, &fill, context);
  });
}

void set_any(bool right) {
  changed(right, filling, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    struct Fill {
      CUDA_MEMSET_NODE_PARAMS what;
      CUcontext context;
    };
    AnyNode any{.type = CU_GRAPH_NODE_TYPE_MEMSET, .reserved = {}, .room = {}};
    const Fill fill{fill_of(to), context};
    std::memcpy(any.room, &fill, sizeof fill);
    CALL(cuGraphExecNodeSetParams, exec, node, static_cast<void*>(&any));
  });
}

void set_child(bool right) {
  changed(right, with_child_using, [](CUgraphExec exec, CUgraphNode node, CUdeviceptr to) {
    CALL(cuGraphExecChildGraphNodeSetParams, exec, node, using_it(to));
  });
}

void updated(bool right) {
  changed(right, using_it, [](CUgraphExec exec, CUgraphNode, CUdeviceptr to) {
    need(update(exec, using_it(to)), "cuGraphExecUpdate_v2");
  });
}

// The node that names the freed block is switched off, or on again.
void switch_node(bool right) {
  Two two;
  const CUgraph graph = using_it(two.block);
  const CUgraphExec exec = executable(graph);
  CALL(cuGraphNodeSetEnabled, exec, first_of(graph), 0U);
  if (!right) CALL(cuGraphNodeSetEnabled, exec, first_of(graph), 1U);
  free_on(two.block, two.a);
  run(exec, two.a);
}

struct Pair {
  const char* wrong;
  const char* right;
  void (*program)(bool right);
};

constexpr Pair kPairs[] = {
    {"graph_free_beside_kernel", "right_graph_free_behind_kernel", free_beside_kernel},
    {"graph_free_beside_copy", "right_graph_free_behind_copy", free_beside_copy},
    {"graph_free_beside_rows", "right_graph_free_behind_rows", free_beside_rows},
    {"graph_free_beside_memset", "right_graph_free_behind_memset", free_beside_memset},
    {"graph_free_beside_child", "right_graph_free_behind_child", free_beside_child},
    {"graph_free_beside_struct", "right_graph_free_behind_struct", free_beside_struct},
    {"graph_after_free", "right_graph_before_free", after_free},
    {"graph_before_allocation", "right_graph_after_allocation", before_allocation},
    {"graph_set_kernel", "right_graph_set_kernel", set_kernel},
    {"graph_set_kernel_v2", "right_graph_set_kernel_v2", set_kernel_v2},
    {"graph_set_copy", "right_graph_set_copy", set_copy},
    {"graph_set_memset", "right_graph_set_memset", set_fill},
    {"graph_set_any", "right_graph_set_any", set_any},
    {"graph_set_child", "right_graph_set_child", set_child},
    {"graph_updated", "right_graph_updated", updated},
    {"graph_node_on", "right_graph_node_off", switch_node},
};

// ---- Right, since custash cannot tell.

template <typename Add>
void with_another_node(Add add) {
  Two two;
  CUgraph graph = empty();
  with_kernel(graph, two.block);
  add(graph, two);
  run(executable(graph), two.b);
  free_on(two.block, two.a);
}

// Right alone.
const Programs kSingle = {
    // A launch comes after the one before it.
    {"right_graph_on_two_streams", before_free([](const Two& two) {
       const CUgraphExec graph = executable(using_it(two.block));
       run(graph, two.b);
       run(graph, two.a);
     })},
    {"right_graph_with_a_host_function",
     [] {
       with_another_node([](CUgraph graph, const Two&) {
         CUgraphNode node = nullptr;
         const CUDA_HOST_NODE_PARAMS params{.fn = nothing, .userData = nullptr};
         CALL(cuGraphAddHostNode, &node, graph, kFirst, kNone, &params);
       });
     }},
    {"right_graph_that_records",
     [] {
       const CUevent done = event();
       Two two;
       CUgraph graph = empty();
       const CUgraphNode kernel = with_kernel(graph, two.block);
       CUgraphNode node = nullptr;
       CALL(cuGraphAddEventRecordNode, &node, graph, &kernel, std::size_t{1}, done);
       run(executable(graph), two.b);
       wait(two.a, done);
       free_on(two.block, two.a);
     }},
    {"right_graph_that_waits_to_use",
     [] {
       const CUstream a = stream();
       const CUdeviceptr block = on(a);
       CUgraph graph = empty();
       CUgraphNode wait_node = nullptr;
       CUgraphNode node = nullptr;
       CALL(cuGraphAddEventWaitNode, &wait_node, graph, kFirst, kNone, recorded(a));
       const Params params(block);
       CALL(cuGraphAddKernelNode, &node, graph, &wait_node, std::size_t{1}, &params.base);
       run(executable(graph), stream());
     }},
    // The host may see that pageable memory was written.
    {"right_graph_copy_to_the_host",
     [] {
       static std::vector<char> host(kBytes);
       Two two;
       const CUgraph graph = captured([&](CUstream s) {
         use(two.block, s);
         CALL(cuMemcpyDtoHAsync_v2, static_cast<void*>(host.data()), two.block, kBytes, s);
       });
       run(executable(graph), two.b);
       free_on(two.block, two.a);
     }},
    // Or what a kernel writes to host memory.
    {"right_graph_that_tells_the_host", before_free([](const Two& two) {
       void* const host = pinned();
       const CUgraph graph = captured([&](CUstream s) {
         launch(function("touch"), s, {&two.block, &host});
       });
       run(executable(graph), two.b);
     })},
    // A kernel may give the node another block.
    {"right_graph_node_for_kernels",
     [] {
       Two two;
       CUgraph graph = empty();
       int value[16] = {1};
       CALL(cuGraphKernelNodeSetAttribute,
            with_kernel(graph, two.block),
            13,  // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
            static_cast<const int*>(value));
       const CUgraphExec exec = executable(graph);
       free_on(two.block, two.a);
       run(exec, two.a);
     }},
    // The refused update may have changed it.
    {"right_graph_not_updated",
     [] {
       Two two;
       const CUgraphExec exec = executable(using_it(two.block));
       if (update(exec, empty()) == 0) std::exit(6);
       free_on(two.block, two.a);
       run(exec, two.a);
     }},
    // The update may have switched the node on.
    {"right_graph_updated_while_off",
     [] {
       Two two;
       const CUgraph graph = using_it(two.block);
       const CUgraphExec exec = executable(graph);
       CALL(cuGraphNodeSetEnabled, exec, first_of(graph), 0U);
       need(update(exec, using_it(two.block)), "cuGraphExecUpdate_v2");
       free_on(two.block, two.a);
       run(exec, two.a);
     }},
    // The executable still goes by the nodes of its first graph.
    {"right_graph_set_after_update",
     [] {
       Two two;
       const CUdeviceptr freed = on(two.a);
       const CUgraph graph = using_it(two.block);
       const CUgraphExec exec = executable(graph);
       need(update(exec, using_it(freed)), "cuGraphExecUpdate_v2");
       free_on(freed, two.a);
       const Params params(two.block);
       CALL(cuGraphExecKernelNodeSetParams, exec, first_of(graph), &params.base);
       run(exec, two.a);
     }},
    // What launches of a graph repeat says nothing of a place.
    {"right_graph_leftovers_in_structures",
     [] {
       Two two;
       const CUgraphExec graph =
           executable(captured([&](CUstream s) { by_struct(two.block, s); }));
       for (int i = 0; i < 1001; ++i)
         run(graph, two.a);
       free_on(two.block, two.a);
       run(graph, two.a);
     }},
};

}  // namespace

const Programs kGraphs = [] {
  Programs all = kSingle;
  for (const auto& [wrong, right, program] : kPairs) {
    all[wrong] = [program = program] { program(false); };
    all[right] = [program = program] { program(true); };
  }
  return all;
}();

}  // namespace check_streams
