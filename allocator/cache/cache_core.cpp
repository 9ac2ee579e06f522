// SPDX-License-Identifier: MIT
// CacheCore: which freed blocks a request may have.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/cache/cache_core.hpp"

#include "allocator/base/rule.hpp"

namespace custash {

CacheCore::CacheCore(const CacheShared& shared_by_all,
                     ContextCache& of,
                     CUcontext of_context,
                     CUdevice on)
    : shared(shared_by_all),
      quick(shared.config.thread_caches && shared.config.single_stream &&
            shared.config.guard.on_device == nullptr),
      cache(of),
      context(of_context),
      device(on),
      memory(shared.driver, shared.deferred_unmaps, shared.config.backing, context, device),
      timeline(shared.driver, shared.config, context, shared.gate, shared.sleep_gate),
      headroom(memory, shared.budget),
      pools(stats, refaults, shared.config.slabs_after) {
}

ReuseLimits CacheCore::reuse_limits(const Request& request, bool debt) const {
  const bool graph = timeline.events().capturing() && holds(Rule::a_stream_holds_back_no_graph);
  return {
      .stream_state = graph ? nullptr : request.stream_state,  // a graph may run on any stream
      .passed = timeline.fences().passed(),
      .acceptable = reusable_up_to(debt && debt_allowed())};
}

// Debt must be coverable: a capture cannot pay it, and some kernels wait for nothing here.
bool CacheCore::debt_allowed() const {
  if (timeline.events().capturing() && holds(Rule::no_debt_in_a_capture)) return false;
  return !must_be_over();
}

}  // namespace custash
