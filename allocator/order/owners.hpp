// SPDX-License-Identifier: MIT
// Owners: the contexts whose memory the kernels of one context reach by peer access. The
// streams of that context pay the debt of these owners, too. Also used for the reverse: the
// contexts whose kernels reach the memory of one. Lock free. An owner is never removed:
// its index is used in StreamState::paid_abroad. Proved: tests/models/peers.pml
// and tests/models/unpaid.pml.
#pragma once

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/timeline.hpp"

#include <array>
#include <atomic>

namespace custash {

class Owners {
 public:
  // False: there is no place left.
  bool add(Timeline& owner) {
    for (std::atomic<Timeline*>& place : places_) {
      Timeline* there = nullptr;
      if (place.compare_exchange_strong(there, &owner) || there == &owner) return true;
    }
    return false;
  }

  [[nodiscard]] bool host_may_hand_over() const {
    for (const std::atomic<Timeline*>& place : places_) {
      const Timeline* there = place.load();  // seq_cst: see PeerAccess::unpaid()
      if (there == nullptr || there->host_may_hand_over()) return there != nullptr;
    }
    return false;
  }

  // Before a submission on this stream.
  void pay(StreamState& stream_state) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Timeline* owner = places_[i].load();
      if (owner == nullptr) return;
      const Position debt = owner->debt().owed();
      if (debt <= stream_state.paid_abroad[i].load() || debt <= owner->fences().passed())
        continue;
      if (holds(Rule::peers_pay_what_is_owed)) owner->debt().pay_on(stream_state.stream);
      atomic_max(stream_state.paid_abroad[i], debt);
    }
  }

 private:
  std::array<std::atomic<Timeline*>, StreamState::kOwners> places_{};
};

}  // namespace custash
