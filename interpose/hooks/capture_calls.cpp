// SPDX-License-Identifier: MIT
// The begins and ends of stream captures. Proved: tests/models/capture.pml.
#include "allocator/base/rule.hpp"
#include "interpose/hooks/graphs.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"

namespace custash::handlers {
namespace {

template <typename Call>
CUresult begin(NullStream null, CUstream stream, Call call) {
  Allocator* const core = process::core();
  if (core == nullptr) return call();
  core->capture_begins(stream, null);
  const CUresult result = call();
  core->capture_begin_done(stream, null, result == CUDA_SUCCESS);
  return result;
}

}  // namespace

CUresult begin_capture_v1(Real<CUstream> real, NullStream null, CUstream stream) {
  return begin(null, stream, [&] { return real(stream); });
}

CUresult begin_capture(Real<CUstream, CUstreamCaptureMode> real,
                       NullStream null,
                       CUstream stream,
                       CUstreamCaptureMode mode) {
  return begin(null, stream, [&] { return real(stream, mode); });
}

CUresult begin_capture_to_graph(
    Real<CUstream, CUgraph, const CUgraphNode*, const void*, Count, CUstreamCaptureMode> real,
    NullStream null,
    CUstream stream,
    CUgraph graph,
    const CUgraphNode* after,
    const void* edges,
    Count count,
    CUstreamCaptureMode mode) {
  return begin(null, stream, [&] { return real(stream, graph, after, edges, count, mode); });
}

CUresult begin_recapture(Real<CUstream, CUstreamCaptureMode, CUgraph, void*, void*> real,
                         NullStream null,
                         CUstream stream,
                         CUstreamCaptureMode mode,
                         CUgraph graph,
                         void* callback,
                         void* data) {
  return begin(null, stream, [&] { return real(stream, mode, graph, callback, data); });
}

// A capture may also end by an error (invalidated, unjoined), and not every error ends one
// (wrong thread, not its first stream). So the state of the stream before and after the call
// decides.
CUresult end_capture(Real<CUstream, CUgraph*> real,
                     NullStream null,
                     CUstream stream,
                     CUgraph* out) {
  Allocator* const core = process::core();
  if (core == nullptr) return real(stream, out);
  const bool before = captures::is_capturing(*core, stream, null);
  const CUresult result = real(stream, out);
  // The graph is counted first: it keeps the blocks that the end of the capture would free.
  const bool first = holds(Rule::graphs_are_counted_before_their_capture_ends);
  if (first && result == CUDA_SUCCESS && out != nullptr) graphs::created(*core, *out);
  if (before && !captures::is_capturing(*core, stream, null)) core->capture_ended(stream, null);
  if (!first && result == CUDA_SUCCESS && out != nullptr) graphs::created(*core, *out);
  return result;
}

}  // namespace custash::handlers
