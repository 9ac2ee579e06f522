// SPDX-License-Identifier: MIT
// Debt: blocks handed out before their fence has passed, and the waits that pay for them. The
// next submission on a stream that is not in order behind the fence makes its stream wait.
//
// Written under the timeline's lock, read without it.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#pragma once

#include "allocator/base/mutex.hpp"
#include "allocator/order/fence_log.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class Debt {
 public:
  Debt(ContextEvents& events, Submissions& submissions, FenceLog& fences, Mutex& mutex)
      : events_(events), submissions_(submissions), fences_(fences), mutex_(mutex) {}

  // Fences up to here are owed: the next submission waits for them, whatever else is handed out
  // from under them.
  [[nodiscard, gnu::always_inline]] std::uint64_t owed() const { return owed_.load(); }

  // All later work waits for the fences up to here.
  [[nodiscard, gnu::always_inline]] std::uint64_t paid() const { return paid_.load(); }

  // The lane's stream comes after all that is owed, up to `debt`, by itself or by a wait.
  [[nodiscard, gnu::always_inline]] bool behind(const Lane& lane, std::uint64_t debt) const {
    return debt <= lane.paid.load() || lane_.load() == &lane;
  }

  // A block with this fence position was handed out before the fence has passed.
  void take_debt(std::uint64_t fence);
  // Pays for one lane's stream, or for all streams (null).
  void pay(Lane* lane);
  // Pays now, for all streams (one_lane:off).
  void pay_now();
  // Pays for a stream of another context (a copy between contexts).
  void pay_on(CUstream stream);

  // A wait of a stream that was made elsewhere.
  void note_wait() { waits_.fetch_add(1); }

  [[nodiscard]] std::uint64_t waits() const { return waits_.load(); }

 private:
  [[nodiscard]] std::uint64_t clear() const;
  bool find(std::uint64_t position, Fence* out);

  ContextEvents& events_;
  Submissions& submissions_;
  FenceLog& fences_;
  std::atomic<std::uint64_t> owed_{0};
  std::atomic<std::uint64_t> paid_{0};
  std::atomic<const Lane*> lane_{nullptr};  // by itself in order behind all that is owed
  std::atomic<std::uint64_t> waits_{0};
  Mutex& mutex_;  // the timeline's
};

}  // namespace custash
