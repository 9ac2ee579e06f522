// SPDX-License-Identifier: MIT
// Debt: blocks handed out before their fence has passed, and the waits that pay for them. The
// next submission on a stream that is not in order behind the fence makes its stream wait.
//
// Written under the timeline's lock, read without it.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#pragma once

#include "allocator/base/mutex.hpp"
#include "allocator/order/fence_log.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace custash {

class Debt {
 public:
  Debt(ContextEvents& events, Submissions& submissions, FenceLog& fences, Mutex& mutex)
      : events_(events), submissions_(submissions), fences_(fences), mutex_(mutex) {}

  // Fences up to here are owed: the next submission waits for them, whatever else is handed out
  // from under them.
  [[nodiscard, gnu::always_inline]] Position owed() const { return owed_.load(); }

  // All later work waits for the fences up to here.
  [[nodiscard, gnu::always_inline]] Position paid() const { return paid_.load(); }

  // The stream comes after all that is owed, up to `debt`, by itself or by a wait.
  [[nodiscard, gnu::always_inline]] bool behind(const StreamState& stream_state,
                                                Position debt) const {
    return debt <= stream_state.paid.load() || stream_state_.load() == &stream_state;
  }

  // Fences up to here cost nothing: passed, or waited for by all later work.
  [[nodiscard, gnu::always_inline]] Position done_or_paid() const {
    return std::max(fences_.passed(), paid());
  }

  // A block freed plainly at this position was handed out before its fence has passed.
  void take_debt(Position position);
  // Pays for one stream, or for all streams (null).
  void pay(StreamState* stream_state);
  // Pays now, for all streams (single_stream:off).
  void pay_now();
  // Pays for a stream of another context (a copy between contexts).
  void pay_on(CUstream stream);

  // A wait of a stream that was made elsewhere.
  void note_wait() { waits_.fetch_add(1); }

  [[nodiscard]] std::uint64_t waits() const { return waits_.load(); }

 private:
  bool find(Position position, Fence* out);

  ContextEvents& events_;
  Submissions& submissions_;
  FenceLog& fences_;
  std::atomic<Position> owed_{};
  std::atomic<Position> paid_{};
  std::atomic<const StreamState*> stream_state_{
      nullptr};  // by itself in order behind all that is owed
  std::atomic<std::uint64_t> waits_{0};
  Mutex& mutex_;  // the timeline's
};

}  // namespace custash
