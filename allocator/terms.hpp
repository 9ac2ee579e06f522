// SPDX-License-Identifier: MIT
// The words of the facade: how a stream is named, what the host may see, what an address is.
// Pure. Rank 3.
#pragma once

#include "allocator/event.hpp"
#include "allocator/segment.hpp"
#include "allocator/units.hpp"

#include <cstdint>
#include <vector>

#include <cuda.h>

namespace custash {

class DeviceCache;
class Timeline;

// What the handles NULL and 0 mean where a call names a stream: the plain entry points mean the
// legacy default stream, the _ptsz and _ptds forms the per-thread one.
enum class NullStream { Legacy, PerThread };

// Whether the host could see the effect of a submission without a call that synchronises: a
// copy to host memory, a host function, a stream write to host memory. Graph: a launch of a
// graph, visible when something visible was captured into any graph; VisibleGraph: of one that
// may be visible in any case. Wait: no work at all, but a wait for an event, which may draw the
// stream into a capture.
// ReachesHost: a kernel whose parameters hold an address of host memory, or a graph with one
// (ReachesHostGraph). The host sees its effect, and may hand it memory while it runs. Apart: a
// kernel whose parameters were read and hold no such address.
enum class HostView {
  Hidden,
  Visible,
  Graph,
  VisibleGraph,
  Wait,
  ReachesHost,
  ReachesHostGraph,
  Apart
};

// Set in the buffer ids of memory that a call naming a stream has given.
inline constexpr std::uint64_t kOrderedId = 1ULL << 60U;

// A live block, as the queries of interpose/ need it.
struct BlockInfo {
  Address base = 0;
  Bytes requested = 0;  // what the caller asked for
  Bytes usable = 0;     // what it got
  CUcontext context = nullptr;
  std::uint64_t buffer_id = 0;  // unique for each allocation of the process, never reused

  [[nodiscard]] bool stream_ordered() const { return (buffer_id & kOrderedId) != 0; }
};

// A live block that another process uses, and what backs it. While it is pinned its memory
// stays where it is, and is nobody else's even after its free.
struct PinnedBlock {
  DeviceCache* cache = nullptr;
  Address base = 0;
  Bytes requested = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  Address segment = 0;      // plain memory: the start of what the driver gave; 0: pages
  std::vector<Page> pages;  // that the block lies in, in order
};

// Where an address lies.
enum class Ownership {
  Foreign,  // not in any segment of ours: ask the driver
  Live,     // inside a block that a caller owns
  Cached,   // inside a segment of ours, but nobody owns it: as good as unmapped
};

// What one stream may still do with a pinned buffer.
struct HostUse {
  Timeline* timeline = nullptr;
  EventRef event;

  explicit operator bool() const { return timeline != nullptr; }
};

}  // namespace custash
