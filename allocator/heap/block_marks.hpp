// SPDX-License-Identifier: MIT
// BlockMarks: what makes a block's free more than the ordinary one. One load shows whether
// there is any. Pure.
#pragma once

#include "allocator/base/accounts.hpp"

#include <atomic>
#include <bit>
#include <cstdint>

namespace custash {

struct BlockMarks {
  std::uint32_t beside_capture = 0;  // allocated while a capture went on: by this thread
  bool shared_streams = false;   // record_stream was called: no stream is in order by itself
  std::uint8_t unused = 0;       // so that all bits are of members
  Accounts::Number account = 0;  // what the block is charged to until its free; 0: nothing

  [[nodiscard]] bool any() const { return std::bit_cast<std::uint64_t>(*this) != 0; }

  // Its next owner may need more than stream order: only the slow path knows.
  [[nodiscard]] bool kept() const { return beside_capture != 0 || shared_streams; }

  // By the block's owner. Others may ask meanwhile. Order: none, the number stands alone.
  void charge(Accounts::Number to) {
    std::atomic_ref(account).store(to, std::memory_order_relaxed);
  }

  [[nodiscard]] Accounts::Number charged_to() const {
    return std::atomic_ref(const_cast<Accounts::Number&>(account))
        .load(std::memory_order_relaxed);
  }

  // The block no longer has an owner; the owner had requested this many bytes.
  void apply(Accounts& accounts, Bytes requested) {
    if (account == 0) return;
    accounts.balance(account, requested);
    charge(0);
  }
};

static_assert(sizeof(BlockMarks) == sizeof(std::uint64_t));

}  // namespace custash
