// SPDX-License-Identifier: MIT
#include "allocator/charged_memory.hpp"

#include "allocator/registry.hpp"

namespace custash {

Status ChargedMemory::allocate_on(Accounts::Number account,
                                  CUcontext context,
                                  CUstream stream,
                                  NullStream null,
                                  Bytes bytes,
                                  Address* out) {
  const auto source = state_.accounts.charge(account, bytes);
  if (!source) return CUDA_ERROR_OUT_OF_MEMORY;
  const Status status = core_.allocate_on(context, stream, null, bytes, out);
  confirm(account, bytes, *source, status.ok() ? *out : 0);
  return status;
}

Address ChargedMemory::try_allocate_on(Accounts::Number account,
                                       CUcontext context,
                                       CUstream stream,
                                       NullStream null,
                                       Bytes bytes) {
  const auto source = state_.accounts.charge(account, bytes);
  if (!source) return 0;
  const Address hit = core_.try_allocate_on(context, stream, null, bytes);
  confirm(account, bytes, *source, hit);
  return hit;
}

void ChargedMemory::confirm(Accounts::Number account,
                            Bytes bytes,
                            Accounts::Source source,
                            Address block) {
  // No owner: without a cache the memory is the driver's own.
  ContextCache* const cache = block == 0 ? nullptr : state_.owner(block);
  if (cache != nullptr && cache->freed_blocks().charge(block, account))
    state_.accounts.confirm(account, source);
  else
    state_.accounts.undo(account, bytes, source);
}

Accounts& ChargedMemory::accounts() const {
  return state_.accounts;
}

}  // namespace custash
