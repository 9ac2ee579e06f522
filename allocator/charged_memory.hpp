// SPDX-License-Identifier: MIT
// ChargedMemory: stream-ordered blocks that count for a program-created pool from their
// allocation to their free. The memory is that of all other calls. Thread safe; no state of its
// own.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/accounts.hpp"

namespace custash {

class ChargedMemory {
 public:
  explicit ChargedMemory(Allocator& core) : core_(core), state_(core.state()) {}

  // As Allocator::allocate_on().
  Status allocate_on(Accounts::Number account,
                     CUcontext context,
                     CUstream stream,
                     NullStream null,
                     Bytes bytes,
                     Address* out);
  // As Allocator::try_allocate_on().
  Address try_allocate_on(Accounts::Number account,
                          CUcontext context,
                          CUstream stream,
                          NullStream null,
                          Bytes bytes);

  [[nodiscard]] Accounts& accounts() const;

 private:
  // The charge stands where there is a block, and is taken back where there is none (0).
  void confirm(Accounts::Number account, Bytes bytes, Accounts::Source source, Address block);

  Allocator& core_;
  Allocator::State& state_;
};

}  // namespace custash
