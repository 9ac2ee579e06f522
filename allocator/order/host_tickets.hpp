// SPDX-License-Identifier: MIT
// HostTickets: when the host may write to memory again that the device may still read. A ticket
// stands for everything submitted so far in every context. It has passed once all of that is
// over as the host sees it. Tickets pass in order, so "this buffer is free" is one comparison.
// Own lock (rank HostTickets), never held across a driver call.
// decision 13
#pragma once

#include "allocator/base/mutex.hpp"
#include "allocator/order/timeline.hpp"

#include <atomic>
#include <deque>
#include <span>
#include <vector>

namespace custash {

class HostTickets {
 public:
  explicit HostTickets(const Config& config) : config_(config) {}

  // A ticket for the work on these timelines. Each records a fence for it; nothing waits. When
  // all are idle it is 0, which has always passed. An error is that of `own`: a kernel's fault.
  // Without custash the program would have waited for the timelines of `waited` here: they
  // record fences as at a free.
  Status issue(std::span<Timeline* const> timelines,
               std::span<Timeline* const> waited,
               const Timeline* own,
               std::uint64_t* ticket);

  // The newest ticket known to have passed; no driver call.
  [[nodiscard]] std::uint64_t passed() const { return passed_.load(); }

  // Queries the driver, from the oldest ticket up to the first that has not passed.
  void poll();

  // Waits on the host until the ticket has passed. Waits for nothing that the program would not
  // have waited for, without custash, when the ticket was taken.
  Status wait(std::uint64_t ticket);

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Place {
    Timeline* timeline;  // never destroyed
    Position position;

    bool operator==(const Place&) const = default;

    [[nodiscard]] bool over() const { return timeline->fences().over(position); }
  };

  struct Ticket {
    std::uint64_t number = 0;
    std::vector<Place> places;
  };

  static bool over(const Ticket& ticket);
  bool first(Ticket* out);
  void retire();

  const Config& config_;
  std::atomic<std::uint64_t> passed_{0};
  Mutex mutex_{LockRank::HostTickets};
  std::deque<Ticket> open_ GUARDED_BY(mutex_);  // by number
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace custash
