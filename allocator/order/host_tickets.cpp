// SPDX-License-Identifier: MIT
// Proved: tests/models/ends.pml.
#include "allocator/order/host_tickets.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"

#include <algorithm>

namespace custash {

Status HostTickets::issue(std::span<Timeline* const> timelines,
                          std::span<Timeline* const> waited,
                          const Timeline* own,
                          std::uint64_t* ticket) {
  std::vector<Place> places;
  Status result;
  for (Timeline* timeline : timelines) {
    if (timeline != own && !holds(Rule::tickets_cover_every_context)) continue;
    // With single_stream:off submissions may go unseen: then no timeline is known to be idle.
    if (config_.single_stream && !timeline->fences().unfinished()) continue;
    // No fence can be recorded in a context that is being destroyed; the ticket waits for its
    // end instead.
    Place place{timeline, timeline->submissions().submitted()};
    if (const ContextUse use(timeline->events().users()); use) {
      const bool at_free = std::find(waited.begin(), waited.end(), timeline) != waited.end() ||
                           !holds(Rule::tickets_hold_back_no_other_device);
      const Status recorded = timeline->fences().record_free(
          &place.position, at_free ? FenceKind::AtFree : FenceKind::Late);
      if (timeline == own) result = recorded;
    }
    if (place.over()) continue;
    timeline->fences().host_waits_for(place.position);
    places.push_back(place);
  }
  *ticket = 0;
  if (places.empty()) return result;
  Lock lock(mutex_);
  CUSTASH_ASSERT(open_.empty() || open_.front().number > passed());
  CUSTASH_ASSERT(open_.empty() || open_.back().number == last_);
  if (open_.empty() || open_.back().places != places)
    open_.push_back({++last_, std::move(places)});
  *ticket = last_;
  return result;
}

bool HostTickets::over(const Ticket& ticket) {
  const auto place_over = [](const Place& p) { return p.over(); };
  if (!holds(Rule::tickets_pass_in_every_context))
    return std::any_of(ticket.places.begin(), ticket.places.end(), place_over);
  return std::all_of(ticket.places.begin(), ticket.places.end(), place_over);
}

bool HostTickets::first(Ticket* out) {
  Lock lock(mutex_);
  if (open_.empty()) return false;
  *out = open_.front();
  return true;
}

void HostTickets::retire() {
  Lock lock(mutex_);
  while (!open_.empty() && over(open_.front())) {
    CUSTASH_ASSERT(open_.front().number == passed() + 1);
    CUSTASH_ASSERT(open_.front().number <= last_ && !open_.front().places.empty());
    passed_.store(open_.front().number);
    open_.pop_front();
  }
}

void HostTickets::poll() {
  for (Ticket oldest; first(&oldest); retire()) {
    for (const Place& place : oldest.places) {
      if (place.over()) continue;
      if (const ContextUse use(place.timeline->events().users()); use)
        place.timeline->fences().poll(place.position);
    }
    if (!over(oldest)) return;
  }
}

Status HostTickets::wait(std::uint64_t ticket) {
  for (Ticket oldest; passed() < ticket && first(&oldest); retire()) {
    for (const Place& place : oldest.places) {
      if (place.over()) continue;
      const ContextUse use(place.timeline->events().users());
      if (!use) return CUDA_ERROR_NOT_READY;  // the context is being destroyed
      if (const Status waited = place.timeline->fences().wait_for(place.position); !waited.ok())
        return waited;
    }
    // Without a fence, in a capture, there is nothing to query now.
    if (!over(oldest)) return CUDA_ERROR_NOT_READY;
  }
  return {};
}

}  // namespace custash
