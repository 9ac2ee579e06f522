// SPDX-License-Identifier: MIT
#include "interpose/hooks/graphs.hpp"

#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <unordered_set>

namespace custash {
namespace graphs {
namespace {

constinit RankedMutex mutex{HookRank::Graphs};

std::unordered_set<const void*>& living() REQUIRES(mutex) {
  static auto* const set = new std::unordered_set<const void*>;  // never destroyed
  return *set;
}

bool enter(const void* handle) {
  const RankedLock lock(mutex);
  return living().insert(handle).second;
}

bool leave(const void* handle) {
  const RankedLock lock(mutex);
  return living().erase(handle) != 0;
}

void re_enter(const void* handle) noexcept {
  try {
    enter(handle);
  } catch (...) {
    // The core still counts it: its blocks are kept too long, not too short.
  }
}

// Out of the set before the driver destroys it: after that another thread may get the same
// handle.
template <typename Handle>
CUresult destroy(handlers::Real<Handle> real, Handle handle) {
  Allocator* const core = process::core();
  if (core == nullptr) return real(handle);
  const bool known = leave(handle);
  const CUresult result = real(handle);
  if (!known) return result;
  if (result == CUDA_SUCCESS) {
    core->graph_destroyed();
  } else {
    re_enter(handle);
  }
  return result;
}

template <typename Handle>
CUresult note(CUresult result, Handle* out) {
  Allocator* const core = process::core();
  if (core != nullptr && result == CUDA_SUCCESS && out != nullptr) created(*core, *out);
  return result;
}

}  // namespace

void created(Allocator& core, const void* handle) noexcept {
  if (handle == nullptr) return;
  bool first = true;
  try {
    first = enter(handle);
  } catch (...) {
    // It is counted and never found again: its blocks are kept too long, not too short.
  }
  if (first) core.graph_created();
}

}  // namespace graphs

namespace handlers {

CUresult graph_create(Real<CUgraph*, unsigned> real, NullStream, CUgraph* out, unsigned flags) {
  return graphs::note(real(out, flags), out);
}

CUresult graph_clone(Real<CUgraph*, CUgraph> real, NullStream, CUgraph* out, CUgraph original) {
  return graphs::note(real(out, original), out);
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
  return graphs::note(hooks::retry_after_trim(real, call), out);
}

CUresult graph_instantiate_flags(Real<CUgraphExec*, CUgraph, unsigned long long> real,
                                 NullStream,
                                 CUgraphExec* out,
                                 CUgraph graph,
                                 unsigned long long flags) {
  const KeepAwake awake(process::core());
  const auto call = [&](auto* again) { return again(out, graph, flags); };
  return graphs::note(hooks::retry_after_trim(real, call), out);
}

CUresult graph_instantiate_params(Real<CUgraphExec*, CUgraph, void*> real,
                                  NullStream,
                                  CUgraphExec* out,
                                  CUgraph graph,
                                  void* parameters) {
  const KeepAwake awake(process::core());
  const auto call = [&](auto* again) { return again(out, graph, parameters); };
  return graphs::note(hooks::retry_after_trim(real, call), out);
}

CUresult graph_destroy(Real<CUgraph> real, NullStream, CUgraph graph) {
  return graphs::destroy(real, graph);
}

CUresult graph_exec_destroy(Real<CUgraphExec> real, NullStream, CUgraphExec graph) {
  return graphs::destroy(real, graph);
}

}  // namespace handlers
}  // namespace custash
