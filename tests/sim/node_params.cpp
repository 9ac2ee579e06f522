// SPDX-License-Identifier: MIT
#include "tests/sim/node_params.hpp"

#include "tests/sim/lifetime.hpp"
#include "tests/sim/works.hpp"

namespace custash::sim {
namespace {

// A function's context is its module's; a library's kernel has none of its own.
std::uint64_t context_of(World& w, CUfunction fn) {
  const KernelInfo* info = w.kernels.get(fn);
  const Module* module = info == nullptr ? nullptr : w.modules.get(info->module);
  return module == nullptr ? 0 : module->context_id;
}

const Context* named(Frame& f, CUcontext handle) {
  return handle == nullptr ? f.context : f.world.contexts.get(handle);
}

}  // namespace

CUresult kernel_node(Frame& f, const KernelParams* params, GraphNode* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS_v1& base = params->base;
  CUfunction fn = base.func != nullptr ? base.func : params->kernel;
  const LaunchShape shape{{base.gridDimX, base.gridDimY, base.gridDimZ},
                          {base.blockDimX, base.blockDimY, base.blockDimZ}};
  const Context* by = named(f, base.func != nullptr ? nullptr : params->context);
  if (by == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  out->type = CU_GRAPH_NODE_TYPE_KERNEL;
  out->context_id = context_of(f.world, fn);
  if (out->context_id == 0) out->context_id = by->id;
  return kernel_work(f, fn, shape, base.kernelParams, base.extra, &out->work);
}

CUresult kernel_node(Frame& f, const CUDA_KERNEL_NODE_PARAMS_v1* params, GraphNode* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelParams wide = without_context(*params);
  return kernel_node(f, &wide, out);
}

CUresult copy_node(Frame& f, const CUDA_MEMCPY3D* what, CUcontext handle, GraphNode* out) {
  const Context* by = named(f, handle);
  if (by == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  out->type = CU_GRAPH_NODE_TYPE_MEMCPY;
  out->context_id = by->id;
  return copy_work(f.world, *by, what, &out->work);
}

CUresult fill_node(Frame& f,
                   const CUDA_MEMSET_NODE_PARAMS* what,
                   CUcontext handle,
                   GraphNode* out) {
  const Context* by = named(f, handle);
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (by == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  out->type = CU_GRAPH_NODE_TYPE_MEMSET;
  out->context_id = by->id;
  return fill_work(f.world, *by, *what, &out->work);
}

CUresult host_node(const CUDA_HOST_NODE_PARAMS* what, GraphNode* out) {
  if (what == nullptr || what->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->type = CU_GRAPH_NODE_TYPE_HOST;
  out->work = {.name = "host function",
               .host = [fn = what->fn, data = what->userData] { fn(data); }};
  return CUDA_SUCCESS;
}

CUresult child_node(World& w, CUgraph handle, GraphNode* out) {
  const Graph* graph = w.graphs.get(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->type = CU_GRAPH_NODE_TYPE_GRAPH;
  out->child = std::make_shared<const Graph>(*graph);
  return CUDA_SUCCESS;
}

CUresult event_node(World& w, CUgraphNodeType type, CUevent handle, GraphNode* out) {
  const Event* event = w.events.get(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool records = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  out->type = type;
  out->context_id = records ? event->context_id : 0;
  out->work = {.name = records ? "event record" : "event wait"};
  out->event = handle;
  return CUDA_SUCCESS;
}

CUresult any_node(Frame& f, const void* params, GraphNode* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const AnyParams& node = *static_cast<const AnyParams*>(params);
  const auto type = static_cast<CUgraphNodeType>(node.type);
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_node(f, &node.kernel, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_node(f, &node.copy.what, node.copy.context, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      // Of plain memory the driver knows the context itself, of mapped pages it does not.
      const Region* region = region_at(f.world, node.fill.what.dst);
      if (node.fill.context == nullptr && region != nullptr && region->origin == Origin::Vmm)
        return CUDA_ERROR_INVALID_VALUE;
      return fill_node(f, &node.fill.what, node.fill.context, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_node(&node.host, out);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_node(f.world, node.child, out);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_node(f.world, type, node.event, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      out->work = {.name = "empty node"};
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace custash::sim
