// SPDX-License-Identifier: MIT
// How a call names its stream, and what its work may do to the host. Pure.
#pragma once

namespace custash {

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
enum class SubmissionKind {
  Hidden,
  Visible,
  Graph,
  VisibleGraph,
  Wait,
  ReachesHost,
  ReachesHostGraph,
  Apart
};

}  // namespace custash
