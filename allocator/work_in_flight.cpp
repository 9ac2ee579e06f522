// SPDX-License-Identifier: MIT
#include "allocator/work_in_flight.hpp"

#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {

Status WorkInFlight::take_ticket(CUcontext own, std::uint64_t* ticket) {
  if (ContextCache* only = state_.only.load()) {
    Timeline* const one[] = {&only->timeline()};
    if (only->context() != own) return state_.tickets.issue(one, {}, nullptr, ticket);
    return state_.tickets.issue(one, one, one[0], ticket);
  }
  ContextCache* cache = state_.known(own);
  if (cache == nullptr) return state_.tickets.issue(state_.timelines(), {}, nullptr, ticket);
  // Without custash, CUDA waits for the buffer's device, and for no other.
  const std::vector<Timeline*> here = timelines_of(state_.on_device(cache->device()));
  return state_.tickets.issue(state_.timelines(), here, &cache->timeline(), ticket);
}

HostTickets& WorkInFlight::tickets() {
  return state_.tickets;
}

HostUse WorkInFlight::record_use(CUstream stream, NullStream null) {
  const StreamPlace place = state_.place(stream, null);
  HostUse use;
  if (!place || !place.cache->timeline().events().record_use(*place.stream_state, &use.event))
    return {};
  use.timeline = &place.cache->timeline();
  return use;
}

bool WorkInFlight::use_over(const HostUse& use) {
  return use.timeline->events().use_over(use.event);
}

Status WorkInFlight::wait_as_free_does(CUcontext context) {
  ContextCache* cache = state_.known(context);
  if (cache == nullptr) return {};
  const Status others = state_.wait_for_others(*cache);
  const Status own = cache->wait_before_free();
  return own.ok() ? others : own;
}

bool WorkInFlight::free_would_not_wait(CUcontext context) {
  const StreamBinding* binding = state_.known_binding(context);
  return binding != nullptr && !binding->cache->fast_path().free_waits() &&
         !state_.others_at_work(*binding->cache);
}

bool WorkInFlight::idle() {
  if (!state_.config.single_stream) return false;  // submissions may have gone unseen
  if (ContextCache* cache = state_.only.load()) return !cache->timeline().fences().unfinished();
  const std::vector<Timeline*> all = state_.timelines();
  return std::none_of(
      all.begin(), all.end(), [](Timeline* each) { return each->fences().unfinished(); });
}

}  // namespace custash
