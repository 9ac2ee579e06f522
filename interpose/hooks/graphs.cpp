// SPDX-License-Identifier: MIT
// Graphs and executables: what each is made of, so that the core knows which blocks it may use.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/graph_memory.hpp"
#include "interpose/hooks/handlers.hpp"

namespace custash {
namespace graphs {
namespace {

template <typename Handle>
CUresult destroy(handlers::Real<Handle> real, Handle handle) {
  Allocator* const core = process::core();
  if (core == nullptr) return real(handle);
  GraphMemory memory(*core);
  const GraphMemory::Leaving leaving = memory.leaves(handle);
  const CUresult result = real(handle);
  if (result == CUDA_SUCCESS)
    memory.destroyed(leaving);
  else
    memory.stays(handle, leaving);
  return result;
}

template <typename Handle>
CUresult note(CUresult result, Handle* out, CUgraph from) {
  Allocator* const core = process::core();
  if (core != nullptr && result == CUDA_SUCCESS && out != nullptr)
    GraphMemory(*core).made(*out, from);
  return result;
}

void contains(const void* graph, CUgraph part) {
  if (Allocator* const core = process::core()) GraphMemory(*core).contains(graph, part);
}

// One that the driver refuses may have been changed in part.
template <typename Call>
CUresult update(CUgraphExec graph, CUgraph from, Call call) {
  contains(graph, from);
  CUgraphExec* const out = &graph;
  return note(hooks::while_awake(call), out, from);
}

}  // namespace
}  // namespace graphs

namespace handlers {

CUresult graph_create(Real<CUgraph*, unsigned> real, NullStream, CUgraph* out, unsigned flags) {
  return graphs::note(real(out, flags), out, nullptr);
}

CUresult graph_clone(Real<CUgraph*, CUgraph> real, NullStream, CUgraph* out, CUgraph original) {
  return graphs::note(real(out, original), out, original);
}

CUresult graph_instantiate_log(Real<CUgraphExec*, CUgraph, CUgraphNode*, char*, Count> real,
                               NullStream,
                               CUgraphExec* out,
                               CUgraph graph,
                               CUgraphNode* node,
                               char* log,
                               Count size) {
  const KeepAwake awake(process::core());
  const auto call = [&](auto* again) { return again(out, graph, node, log, size); };
  return graphs::note(hooks::retry_after_trim(real, call), out, graph);
}

CUresult graph_instantiate_flags(Real<CUgraphExec*, CUgraph, unsigned long long> real,
                                 NullStream,
                                 CUgraphExec* out,
                                 CUgraph graph,
                                 unsigned long long flags) {
  const KeepAwake awake(process::core());
  const auto call = [&](auto* again) { return again(out, graph, flags); };
  return graphs::note(hooks::retry_after_trim(real, call), out, graph);
}

CUresult graph_instantiate_params(Real<CUgraphExec*, CUgraph, void*> real,
                                  NullStream,
                                  CUgraphExec* out,
                                  CUgraph graph,
                                  void* parameters) {
  const KeepAwake awake(process::core());
  const auto call = [&](auto* again) { return again(out, graph, parameters); };
  return graphs::note(hooks::retry_after_trim(real, call), out, graph);
}

CUresult graph_destroy(Real<CUgraph> real, NullStream, CUgraph graph) {
  return graphs::destroy(real, graph);
}

CUresult graph_exec_destroy(Real<CUgraphExec> real, NullStream, CUgraphExec graph) {
  return graphs::destroy(real, graph);
}

CUresult graph_exec_update(Real<CUgraphExec, CUgraph, CUgraphNode*, void*> real,
                           NullStream,
                           CUgraphExec graph,
                           CUgraph from,
                           CUgraphNode* where,
                           void* result) {
  return graphs::update(graph, from, [&] { return real(graph, from, where, result); });
}

CUresult graph_exec_update_v2(Real<CUgraphExec, CUgraph, void*> real,
                              NullStream,
                              CUgraphExec graph,
                              CUgraph from,
                              void* result) {
  return graphs::update(graph, from, [&] { return real(graph, from, result); });
}

CUresult add_child_graph(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, CUgraph> real,
                         NullStream,
                         CUgraphNode* out,
                         CUgraph graph,
                         const CUgraphNode* after,
                         Count count,
                         CUgraph child) {
  graphs::contains(graph, child);
  return hooks::while_awake([&] { return real(out, graph, after, count, child); });
}

CUresult exec_set_child_graph(Real<CUgraphExec, CUgraphNode, CUgraph> real,
                              NullStream,
                              CUgraphExec graph,
                              CUgraphNode node,
                              CUgraph child) {
  graphs::contains(graph, child);
  return hooks::while_awake([&] { return real(graph, node, child); });
}

}  // namespace handlers
}  // namespace custash
