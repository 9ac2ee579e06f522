// SPDX-License-Identifier: MIT
// The begins and ends of stream captures. Proved: tests/models/capture.pml.
#include "allocator/graph_memory.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"

namespace custash::handlers {
namespace {

template <typename Call>
CUresult begin(NullStream null, CUstream stream, const void* graph, Call call) {
  Allocator* const core = process::core();
  if (core == nullptr) return call();
  GraphMemory(*core).capture_begins(stream, null);
  const CUresult result = call();
  GraphMemory(*core).capture_begin_done(stream, null, result == CUDA_SUCCESS, graph);
  return result;
}

}  // namespace

CUresult begin_capture_v1(Real<CUstream> real, NullStream null, CUstream stream) {
  return begin(null, stream, nullptr, [&] { return real(stream); });
}

CUresult begin_capture(Real<CUstream, CUstreamCaptureMode> real,
                       NullStream null,
                       CUstream stream,
                       CUstreamCaptureMode mode) {
  return begin(null, stream, nullptr, [&] { return real(stream, mode); });
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
  return begin(
      null, stream, graph, [&] { return real(stream, graph, after, edges, count, mode); });
}

CUresult begin_recapture(Real<CUstream, CUstreamCaptureMode, CUgraph, void*, void*> real,
                         NullStream null,
                         CUstream stream,
                         CUstreamCaptureMode mode,
                         CUgraph graph,
                         void* callback,
                         void* data) {
  return begin(null, stream, graph, [&] { return real(stream, mode, graph, callback, data); });
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
  const CUgraph made = result == CUDA_SUCCESS && out != nullptr ? *out : nullptr;
  if (before && !captures::is_capturing(*core, stream, null))
    GraphMemory(*core).capture_ended(stream, null, made);
  return result;
}

}  // namespace custash::handlers
