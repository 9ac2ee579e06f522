// SPDX-License-Identifier: MIT
// Uses in graphs: wrong in one way each, and right.
#include "tests/process/streams/bed.hpp"

#include <cstring>
#include <vector>

namespace check_streams {
namespace {

template <typename Body>
CUgraph captured(Body body) {
  const CUstream s = stream();
  CUgraph graph = nullptr;
  CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  body(s);
  CALL(cuStreamEndCapture, s, &graph);
  return graph;
}

CUgraph using_it(CUdeviceptr block) {
  return captured([&](CUstream s) { use(block, s); });
}

CUgraphExec executable(CUgraph graph) {
  CUgraphExec out = nullptr;
  CALL(cuGraphInstantiateWithFlags, &out, graph, 0ULL);
  return out;
}

void run(CUgraphExec graph, CUstream s) {
  CALL(cuGraphLaunch, graph, s);
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

// ---- The three kinds.

// A graph of `make(block)` runs beside the free, or before it.
template <bool kRight, typename Make>
void free_beside(Make make) {
  Two two;
  run(executable(make(two)), two.b);
  if (kRight) order(two.b, two.a);
  free_on(two.block, two.a);
}

template <bool kRight>
void free_beside_kernel() {
  free_beside<kRight>([](const Two& two) { return using_it(two.block); });
}

template <bool kRight>
void free_beside_copy() {
  free_beside<kRight>([](const Two& two) {
    return captured(
        [&](CUstream s) { CALL(cuMemcpyDtoHAsync_v2, pinned(), two.block, kBytes, s); });
  });
}

template <bool kRight>
void free_beside_rows() {
  free_beside<kRight>([](const Two& two) {
    CUgraph graph = empty();
    CUgraphNode node = nullptr;
    const CUDA_MEMCPY3D copy = copy_between(plain(), two.block);
    CALL(cuGraphAddMemcpyNode, &node, graph, kFirst, kNone, &copy, context);
    return graph;
  });
}

template <bool kRight>
void free_beside_memset() {
  free_beside<kRight>([](const Two& two) {
    CUgraph graph = empty();
    CUgraphNode node = nullptr;
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(two.block);
    CALL(cuGraphAddMemsetNode, &node, graph, kFirst, kNone, &fill, context);
    return graph;
  });
}

// Two graphs deep.
template <bool kRight>
void free_beside_child() {
  free_beside<kRight>([](const Two& two) {
    CUgraph graph = empty();
    with_child(graph, with_child_using(two.block));
    return graph;
  });
}

template <bool kRight>
void free_beside_struct() {
  free_beside<kRight>([](const Two& two) {
    by_struct_often(two.block, two.a);
    order(two.a, two.b);
    return captured([&](CUstream s) { by_struct(two.block, s); });
  });
}

template <bool kRight>
void after_free() {
  Two two;
  const CUgraphExec graph = executable(using_it(two.block));
  if (kRight) run(graph, two.a);
  free_on(two.block, two.a);
  if (!kRight) run(graph, two.a);
}

template <bool kRight>
void before_allocation() {
  const CUstream a = stream();
  const CUstream b = stream();
  const CUgraphExec graph = executable(using_it(on(a)));
  if (kRight) order(a, b);
  run(graph, b);
}

// ---- Executables that change: they come to name a freed block, or to name none.

template <bool kRight, typename Change>
void changed(CUgraph (*make)(CUdeviceptr), Change change) {
  Two two;
  const CUdeviceptr freed = on(two.a);
  const CUgraph graph = make(kRight ? freed : two.block);
  const CUgraphExec exec = executable(graph);
  run(exec, two.a);
  free_on(freed, two.a);
  change(exec, graph, kRight ? two.block : freed);
  run(exec, two.a);
}

CUgraphNode first_of(CUgraph graph) {
  std::size_t one = 1;
  CUgraphNode node = nullptr;
  CALL(cuGraphGetNodes, graph, &node, &one);
  return node;
}

template <bool kRight, int kVersion>
void set_kernel() {
  changed<kRight>(using_it, [](CUgraphExec exec, CUgraph graph, CUdeviceptr to) {
    const Params params(to);
    const CUgraphNode node = first_of(graph);
    if (kVersion == 1)
      CALL(cuGraphExecKernelNodeSetParams, exec, node, &params.base);
    else
      CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, static_cast<const void*>(&params));
  });
}

// Of before the free, or it may be the freed block again.
CUdeviceptr source() {
  static const CUdeviceptr kept = plain();
  return kept;
}

CUgraph copying(CUdeviceptr block) {
  CUgraph graph = empty();
  CUgraphNode node = nullptr;
  const CUDA_MEMCPY3D copy = copy_between(block, source());
  CALL(cuGraphAddMemcpyNode, &node, graph, kFirst, kNone, &copy, context);
  return graph;
}

template <bool kRight>
void set_copy() {
  changed<kRight>(copying, [](CUgraphExec exec, CUgraph graph, CUdeviceptr to) {
    const CUDA_MEMCPY3D copy = copy_between(to, source());
    CALL(cuGraphExecMemcpyNodeSetParams, exec, first_of(graph), &copy, context);
  });
}

CUgraph filling(CUdeviceptr block) {
  CUgraph graph = empty();
  CUgraphNode node = nullptr;
  const CUDA_MEMSET_NODE_PARAMS fill = fill_of(block);
  CALL(cuGraphAddMemsetNode, &node, graph, kFirst, kNone, &fill, context);
  return graph;
}

template <bool kRight>
void set_fill() {
  changed<kRight>(filling, [](CUgraphExec exec, CUgraph graph, CUdeviceptr to) {
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(to);
    CALL(cuGraphExecMemsetNodeSetParams, exec, first_of(graph), &fill, context);
  });
}

template <bool kRight>
void set_any() {
  changed<kRight>(filling, [](CUgraphExec exec, CUgraph graph, CUdeviceptr to) {
    struct Fill {
      CUDA_MEMSET_NODE_PARAMS what;
      CUcontext context;
    };
    AnyNode node{.type = CU_GRAPH_NODE_TYPE_MEMSET, .reserved = {}, .room = {}};
    const Fill fill{fill_of(to), context};
    std::memcpy(node.room, &fill, sizeof fill);
    CALL(cuGraphExecNodeSetParams, exec, first_of(graph), static_cast<void*>(&node));
  });
}

template <bool kRight>
void set_child() {
  changed<kRight>(with_child_using, [](CUgraphExec exec, CUgraph graph, CUdeviceptr to) {
    CALL(cuGraphExecChildGraphNodeSetParams, exec, first_of(graph), using_it(to));
  });
}

template <bool kRight>
void update() {
  changed<kRight>(using_it, [](CUgraphExec exec, CUgraph, CUdeviceptr to) {
    unsigned long long told[4] = {};  // CUgraphExecUpdateResultInfo
    CALL(cuGraphExecUpdate_v2, exec, using_it(to), static_cast<void*>(told));
  });
}

// The node that names the freed block is switched off, or on again.
template <bool kRight>
void switch_node() {
  Two two;
  const CUgraph graph = using_it(two.block);
  const CUgraphExec exec = executable(graph);
  CALL(cuGraphNodeSetEnabled, exec, first_of(graph), 0U);
  if (!kRight) CALL(cuGraphNodeSetEnabled, exec, first_of(graph), 1U);
  free_on(two.block, two.a);
  run(exec, two.a);
}

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

}  // namespace

const Programs kGraphs = {
    {"graph_free_beside_kernel", free_beside_kernel<false>},
    {"right_graph_free_behind_kernel", free_beside_kernel<true>},
    {"graph_free_beside_copy", free_beside_copy<false>},
    {"right_graph_free_behind_copy", free_beside_copy<true>},
    {"graph_free_beside_rows", free_beside_rows<false>},
    {"right_graph_free_behind_rows", free_beside_rows<true>},
    {"graph_free_beside_memset", free_beside_memset<false>},
    {"right_graph_free_behind_memset", free_beside_memset<true>},
    {"graph_free_beside_child", free_beside_child<false>},
    {"right_graph_free_behind_child", free_beside_child<true>},
    {"graph_free_beside_struct", free_beside_struct<false>},
    {"right_graph_free_behind_struct", free_beside_struct<true>},
    {"graph_after_free", after_free<false>},
    {"right_graph_before_free", after_free<true>},
    {"graph_before_allocation", before_allocation<false>},
    {"right_graph_after_allocation", before_allocation<true>},
    {"graph_set_kernel", set_kernel<false, 1>},
    {"right_graph_set_kernel", set_kernel<true, 1>},
    {"graph_set_kernel_v2", set_kernel<false, 2>},
    {"right_graph_set_kernel_v2", set_kernel<true, 2>},
    {"graph_set_copy", set_copy<false>},
    {"right_graph_set_copy", set_copy<true>},
    {"graph_set_memset", set_fill<false>},
    {"right_graph_set_memset", set_fill<true>},
    {"graph_set_any", set_any<false>},
    {"right_graph_set_any", set_any<true>},
    {"graph_set_child", set_child<false>},
    {"right_graph_set_child", set_child<true>},
    {"graph_updated", update<false>},
    {"right_graph_updated", update<true>},
    {"graph_node_on", switch_node<false>},
    {"right_graph_node_off", switch_node<true>},
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
       unsigned long long told[4] = {};
       if (call("cuGraphExecUpdate_v2", exec, empty(), static_cast<void*>(told)) == 0)
         std::exit(6);
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
       unsigned long long told[4] = {};
       CALL(cuGraphExecUpdate_v2, exec, using_it(two.block), static_cast<void*>(told));
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
       unsigned long long told[4] = {};
       CALL(cuGraphExecUpdate_v2, exec, using_it(freed), static_cast<void*>(told));
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

}  // namespace check_streams
