// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/node_params.hpp"
// clang-format on
#include "interpose/check/graph_uses.hpp"
#include "interpose/check/stream_uses.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash::graph_uses {
namespace {

using stream_uses::Use;
using streams::Chain;
using streams::Clock;
using streams::Naming;
using streams::Special;

// A node's uses; of a child graph, those of all its nodes. Not known: it may wait for other
// work, signal it, or use what custash cannot read.
struct Node {
  std::vector<std::pair<Use, Naming>> uses;
  bool is_known = true;
};

using Nodes = std::map<CUgraphNode, std::shared_ptr<const Node>>;

struct Executable {
  Nodes nodes;  // by those of the graph that it was made of
  std::set<CUgraphNode> switched_off;
  Clock last;  // its last launch
};

constinit RankedMutex mutex{HookRank::GraphUses};

std::unordered_map<CUgraphExec, Executable>& all() REQUIRES(mutex) {
  static auto* const made = new std::unordered_map<CUgraphExec, Executable>;  // never destroyed
  return *made;
}

// The driver's questions about a graph. Null: it has no such function.
struct Questions {
  CUresult (*nodes)(CUgraph, CUgraphNode*, std::size_t*) = nullptr;
  CUresult (*type)(CUgraphNode, CUgraphNodeType*) = nullptr;
  CUresult (*kernel)(CUgraphNode, node_params::Kernel*) = nullptr;
  CUresult (*attribute)(CUgraphNode, int, int*) = nullptr;
  CUresult (*copy)(CUgraphNode, CUDA_MEMCPY3D*) = nullptr;
  CUresult (*fill)(CUgraphNode, CUDA_MEMSET_NODE_PARAMS*) = nullptr;
  CUresult (*child)(CUgraphNode, CUgraph*) = nullptr;
};

constinit Questions questions;

template <typename... Args>
void look_up(CUresult (*&question)(Args...), const char* name) {
  if (question == nullptr)
    question = reinterpret_cast<CUresult (*)(Args...)>(real::symbol(name));
}

template <typename... Args>
bool told(CUresult (*question)(Args...), std::type_identity_t<Args>... args) {
  return question != nullptr && question(args...) == CUDA_SUCCESS;
}

Node unknown() {
  return {.uses = {}, .is_known = false};
}

Node read(const node_params::Kernel& kernel) {
  const auto& base = kernel.base;
  const void* const function = base.func != nullptr ? base.func : kernel.kernel;
  return {.uses = {{stream_uses::of_kernel(function, base.kernelParams, base.extra),
                    Naming::Repeated}}};
}

Node read(const CUDA_MEMCPY3D& copy) {
  return {.uses = {{stream_uses::of_copy(copy), Naming::Exact}}};
}

Node read(const CUDA_MEMSET_NODE_PARAMS& fill) {
  return {.uses = {{stream_uses::of_fill(fill), Naming::Exact}}};
}

// Kernels may give such a node other parameters.
bool is_updatable(CUgraphNode node) {
  constexpr int kUpdatable = 13;  // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
  int value[16] = {};             // CUlaunchAttributeValue begins with the answer
  return told(questions.attribute, node, kUpdatable, value) && value[0] != 0;
}

Node read(CUgraph graph);

Node read(CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  node_params::Kernel kernel{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUgraph child = nullptr;
  if (!told(questions.type, node, &type)) return unknown();
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return !is_updatable(node) && told(questions.kernel, node, &kernel) ? read(kernel)
                                                                          : unknown();
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return told(questions.copy, node, &copy) ? read(copy) : unknown();
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return told(questions.fill, node, &fill) ? read(fill) : unknown();
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return told(questions.child, node, &child) ? read(child) : unknown();
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:  // memory of the graph's own
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return {};
    default:
      return unknown();
  }
}

bool read(CUgraph graph, Nodes* out) {
  std::size_t count = 0;
  if (!told(questions.nodes, graph, nullptr, &count)) return false;
  std::vector<CUgraphNode> handles(count);
  if (count != 0 && !told(questions.nodes, graph, handles.data(), &count)) return false;
  for (const CUgraphNode each : handles)
    (*out)[each] = std::make_shared<const Node>(read(each));
  return true;
}

Node read(CUgraph graph) {
  Nodes nodes;
  if (!read(graph, &nodes)) return unknown();
  Node whole;
  for (const auto& [handle, node] : nodes) {
    whole.uses.insert(whole.uses.end(), node->uses.begin(), node->uses.end());
    whole.is_known = whole.is_known && node->is_known;
  }
  return whole;
}

// `change(executable)`; false: nothing is known of it any more.
template <typename Change>
void change(CUgraphExec handle, Change change) {
  const RankedLock lock(mutex);
  const auto found = all().find(handle);
  if (found != all().end() && !change(found->second)) all().erase(found);
}

// A node that is not found may be a child graph's, or of before an update.
void put(CUgraphExec executable, CUgraphNode node, Node to) {
  auto kept = std::make_shared<const Node>(std::move(to));
  change(executable, [&](Executable& its) {
    const auto found = its.nodes.find(node);
    if (found == its.nodes.end()) return false;
    found->second = std::move(kept);
    return true;
  });
}

}  // namespace

void begin() {
  look_up(questions.nodes, "cuGraphGetNodes");
  look_up(questions.type, "cuGraphNodeGetType");
  look_up(questions.kernel, "cuGraphKernelNodeGetParams_v2");
  look_up(questions.kernel, "cuGraphKernelNodeGetParams");  // before CUDA 12
  look_up(questions.attribute, "cuGraphKernelNodeGetAttribute");
  look_up(questions.copy, "cuGraphMemcpyNodeGetParams");
  look_up(questions.fill, "cuGraphMemsetNodeGetParams");
  look_up(questions.child, "cuGraphChildGraphNodeGetGraph");
}

void made(CUgraphExec executable, CUgraph graph) {
  Executable fresh;
  if (!read(graph, &fresh.nodes)) return forget(executable);
  const RankedLock lock(mutex);
  all()[executable] = std::move(fresh);
}

// Which of its nodes are off afterwards is not known.
void updated(CUgraphExec executable, CUgraph graph) {
  Nodes nodes;
  const bool is_read = read(graph, &nodes);
  change(executable, [&](Executable& its) {
    its.nodes = std::move(nodes);
    return is_read && its.switched_off.empty();
  });
}

void changed(CUgraphExec executable, CUgraphNode node, const node_params::Kernel& to) {
  put(executable, node, read(to));
}

void changed(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D& to) {
  put(executable, node, read(to));
}

void changed(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS& to) {
  put(executable, node, read(to));
}

void changed(CUgraphExec executable, CUgraphNode node, CUgraph to) {
  put(executable, node, read(to));
}

void changed(CUgraphExec executable, CUgraphNode node, const node_params::Node& to) {
  if (to.type == CU_GRAPH_NODE_TYPE_KERNEL) return changed(executable, node, to.kernel);
  if (to.type == CU_GRAPH_NODE_TYPE_MEMCPY) return changed(executable, node, to.copy.copy);
  if (to.type == CU_GRAPH_NODE_TYPE_MEMSET) return changed(executable, node, to.fill.what);
  if (to.type == CU_GRAPH_NODE_TYPE_GRAPH) return changed(executable, node, to.child);
  put(executable, node, unknown());
}

void switched(CUgraphExec executable, CUgraphNode node, bool on) {
  change(executable, [&](Executable& its) {
    if (on)
      its.switched_off.erase(node);
    else
      its.switched_off.insert(node);
    return its.nodes.contains(node);
  });
}

// A launch comes after the one before it, in whichever streams. What the host learns of one
// node may tell it of others, so all are over then.
// An unknown node may wait for all work before the launch, and may tell all work after it.
void launched(Chain chain, CUgraphExec executable) {
  std::vector<std::shared_ptr<const Node>> nodes;
  Clock last;
  bool is_known = false;
  change(executable, [&](const Executable& its) {
    is_known = true;
    last = its.last;
    for (const auto& [handle, node] : its.nodes) {
      is_known = is_known && node->is_known;
      if (!its.switched_off.contains(handle)) nodes.push_back(node);
    }
    return true;
  });
  if (is_known)
    streams::waits(chain, last);
  else
    streams::special(chain, Special::Graph);
  bool host_visible = false;
  for (const auto& node : nodes)
    for (const auto& [use, naming] : node->uses) {
      if (!use.addresses.empty()) streams::submitted(chain, use.name, use.addresses, naming);
      host_visible = host_visible || use.host_visible;
    }
  if (!is_known) return streams::special(chain, Special::Graph);
  if (host_visible) streams::special(chain, Special::TellsHost);
  last = streams::awaited(chain);
  change(executable, [&](Executable& its) {
    its.last = std::move(last);
    return true;
  });
}

void forget(CUgraphExec executable) {
  change(executable, [](const Executable&) { return false; });
}

void reset_lock_after_fork() noexcept {
  mutex.reset_after_fork();
}

}  // namespace custash::graph_uses
