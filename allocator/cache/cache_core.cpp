// SPDX-License-Identifier: MIT
// CacheCore: which freed blocks a request may have.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/cache/sampler.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

CacheCore::CacheCore(const CacheShared& shared,
                     ContextCache& of,
                     CUcontext of_context,
                     CUdevice on)
    : driver(shared.driver),
      config(shared.config),
      quick(shared.config.thread_caches && shared.config.single_stream &&
            shared.config.guard.on_device == nullptr),
      pages(shared.pages),
      accounts(shared.accounts),
      deferred_unmaps(shared.deferred_unmaps),
      budget(shared.budget),
      cache(of),
      context(of_context),
      device(on),
      others(shared.others),
      sleep_gate(shared.sleep_gate),
      whole_blocks(shared.whole_blocks),
      memory(driver, deferred_unmaps, config.backing, context, device),
      timeline(driver, config, context, shared.gate, shared.sleep_gate) {
  add_pool();
}

CacheCore::~CacheCore() = default;

Pool& CacheCore::add_pool() {
  const std::size_t number = pools.size();
  filled_small.expect(number);
  filled_large.expect(number);
  pools.push_back(std::make_unique<Pool>(stats,
                                         refaults,
                                         config.slabs_after,
                                         PoolMember{&filled_small, number},
                                         PoolMember{&filled_large, number}));
  return *pools.back();
}

ReuseLimits CacheCore::reuse_limits(const Request& request, bool debt) const {
  const Position settled = this->settled();
  const bool graph = timeline.events().capturing() && holds(Rule::a_stream_holds_back_no_graph);
  return {
      .stream_state = graph ? nullptr : request.stream_state,  // a graph may run on any stream
      .passed = timeline.fences().passed(),
      .acceptable =
          debt && debt_allowed() ? std::max(settled, timeline.fences().coverable()) : settled};
}

// Work up to this position has passed, or every stream and every graph launch waits for it
// before its next submission. A block freed up to there costs no further wait.
Position CacheCore::settled() const {
  return must_be_over() ? timeline.fences().passed()
                        : std::max(timeline.debt().done_or_paid(), timeline.debt().owed());
}

// Debt must be coverable: a capture cannot pay it, and some kernels wait for nothing here.
bool CacheCore::debt_allowed() const {
  if (timeline.events().capturing() && holds(Rule::no_debt_in_a_capture)) return false;
  return !must_be_over();
}

// As the driver's own do.
bool CacheCore::frees_wait_for_device() const {
  return config.free_mode == FreeMode::Strict ||
         (peers.reached_by_engines() && holds(Rule::frees_wait_for_engines));
}

bool CacheCore::run_ahead_allows(const Request& request) const {
  const auto reserved = static_cast<Bytes>(stats.reserved_bytes[0].current);
  const auto in_use = static_cast<Bytes>(stats.allocated_bytes[0].current) + request.rounded;
  return reserved + request.rounded <=
         in_use + in_use / 100 * config.run_ahead_percent + kRunAheadFloor;
}

}  // namespace custash
