// SPDX-License-Identifier: MIT
// HostRequest: a request for pinned memory, and what follows from it, worked out once: the size
// that is handed out and the kind of pool that serves it. No state.
#pragma once

#include "pinned/host_pool.hpp"

#include <cuda.h>

namespace custash {

struct HostRequest {
  HostRequest(CUcontext context, Bytes bytes, unsigned flags, bool apart = false)
      : context(context),
        bytes(bytes),
        flags(flags),
        size(HostPool::rounded(bytes)),
        sizes(apart ? HostSizes::Apart : HostPool::sizes_of(bytes)),
        // The driver maps all pinned memory: that flag makes no difference.
        pool_flags(flags & ~static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP)) {}

  const CUcontext context;
  const Bytes bytes;     // as asked for
  const unsigned flags;  // CU_MEMHOSTALLOC_*, as asked for
  const Bytes size;      // as handed out
  const HostSizes sizes;
  const unsigned pool_flags;

  // A pool is looked up again under each lock: it ends with its context.
  [[nodiscard]] bool served_by(const HostPool& pool) const {
    return pool.context == context && pool.flags == pool_flags && pool.sizes == sizes;
  }
};

}  // namespace custash
