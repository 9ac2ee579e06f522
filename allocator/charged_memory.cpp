// SPDX-License-Identifier: MIT
#include "allocator/charged_memory.hpp"

#include "allocator/registry.hpp"

namespace custash {

ChargedMemory::ChargedMemory(Allocator& core) : core_(core), state_(*core.state_) {
}

Status ChargedMemory::allocate_on(Accounts::Number account,
                                  CUcontext context,
                                  CUstream stream,
                                  NullStream null,
                                  Bytes bytes,
                                  Address* out) {
  const Status status = core_.allocate_on(context, stream, null, bytes, out);
  if (!status.ok()) return status;
  // No owner: without a cache the memory is the driver's own.
  if (ContextCache* const cache = state_.owner(*out))
    cache->freed_blocks().charge(*out, account, bytes);
  return status;
}

Address ChargedMemory::try_allocate_on(Accounts::Number account,
                                       CUcontext context,
                                       CUstream stream,
                                       NullStream null,
                                       Bytes bytes) {
  const Address hit = core_.try_allocate_on(context, stream, null, bytes);
  if (hit != 0) state_.owner(hit)->freed_blocks().charge(hit, account, bytes);
  return hit;
}

Accounts& ChargedMemory::accounts() const {
  return state_.accounts;
}

}  // namespace custash
