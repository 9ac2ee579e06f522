// SPDX-License-Identifier: MIT
// WorkInFlight: what the host cache asks about the device's work: what may still read or write
// pinned memory. Thread safe; no state of its own.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/order/event.hpp"
#include "allocator/order/host_tickets.hpp"

#include <cstdint>

namespace custash {

class WorkInFlight {
 public:
  explicit WorkInFlight(Allocator& core) : state_(core.state()) {}

  // A ticket for everything submitted so far, in every context (host_tickets.hpp). Never waits.
  // An error is that of the buffer's own context.
  Status take_ticket(CUcontext own, std::uint64_t* ticket);
  HostTickets& tickets();

  // Records an event after the stream's current work. Returns an empty use if no event can be
  // created.
  HostUse record_use(CUstream stream, NullStream null);
  static bool use_over(const HostUse& use);

  // What option free: lets a plain free of the context's memory wait for.
  Status wait_as_free_does(CUcontext context);
  // The same answered without waiting: true when there is nothing to wait for.
  bool free_would_not_wait(CUcontext context);

  // No context is known to have work in flight.
  bool idle();

 private:
  Allocator::State& state_;
};

}  // namespace custash
