// SPDX-License-Identifier: MIT
// HostRequest: a request for pinned memory, and what follows from it, worked out once: the size
// that is handed out and the kind of pool that serves it. No state.
#pragma once

#include "pinned/first_touch.hpp"

#include <algorithm>
#include <bit>

#include <cuda.h>

namespace custash {

// The requests that a pool serves: less than a page, pages up to 1 MiB, or more. They are kept
// apart so that blocks of whole pages begin on a page, and so that large ranges stay whole.
// Apart: a sampler's, of any size, each block a segment of its own, which is handed out once.
enum class HostSizes { Fine, Small, Large, Apart };

struct HostRequest {
  HostRequest(CUcontext context, Bytes bytes, unsigned flags, bool apart = false)
      : context(context),
        bytes(bytes),
        flags(flags),
        size(rounded(bytes)),
        sizes(apart ? HostSizes::Apart : sizes_of(size)),
        // The driver maps all pinned memory: that flag makes no difference.
        pool_flags(flags & ~static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP)) {}

  // Four size classes per doubling up to 128 KiB. From 4 KiB on a block has whole pages of the
  // system for itself, whatever their size.
  static Bytes rounded(Bytes bytes) {
    if (bytes > 128_KiB) return align_up(bytes, host_pages::page());
    const Bytes doubling = std::bit_floor(std::max<Bytes>(bytes, 1));
    const Bytes size = align_up(bytes, std::max(doubling / 4, kHostAlignment));
    return size >= kHostPage ? align_up(size, host_pages::page()) : size;
  }

  static HostSizes sizes_of(Bytes rounded) {
    if (rounded > 1_MiB) return HostSizes::Large;
    return rounded < kHostPage ? HostSizes::Fine : HostSizes::Small;
  }

  const CUcontext context;
  const Bytes bytes;     // as asked for
  const unsigned flags;  // CU_MEMHOSTALLOC_*, as asked for
  const Bytes size;      // as handed out
  const HostSizes sizes;
  const unsigned pool_flags;
};

}  // namespace custash
