// SPDX-License-Identifier: MIT
// Proved: tests/models/capture.pml.
#include "interpose/process/captures.hpp"

#include "allocator/base/rule.hpp"
#include "interpose/hooks/graphs.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/process/process.hpp"

#include <atomic>

namespace custash {
namespace captures {
namespace {

constinit std::atomic<bool> host_visible{false};
constinit std::atomic<bool> host_reaching{false};

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

bool under_way() noexcept {
  const Allocator* const core = process::current.load(std::memory_order_acquire);
  return core != nullptr && core->captures_open() != 0;
}

bool is_capturing(Allocator& core, CUstream stream, NullStream null) noexcept {
  if (stream == nullptr && null == NullStream::PerThread) stream = CU_STREAM_PER_THREAD;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error is the legacy stream's beside a capture (906), or a bad handle's: neither
  // captures.
  return core.driver().stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void add_host_visible_node() noexcept {
  host_visible.store(true, std::memory_order_relaxed);
}

bool host_visible_node_added() noexcept {
  return host_visible.load(std::memory_order_relaxed);
}

void add_host_reaching_node() noexcept {
  host_reaching.store(true, std::memory_order_relaxed);
}

bool host_reaching_node_added() noexcept {
  return host_reaching.load(std::memory_order_relaxed);
}

}  // namespace captures

namespace handlers {

CUresult begin_capture_v1(Real<CUstream> real, NullStream null, CUstream stream) {
  return captures::begin(null, stream, [&] { return real(stream); });
}

CUresult begin_capture(Real<CUstream, CUstreamCaptureMode> real,
                       NullStream null,
                       CUstream stream,
                       CUstreamCaptureMode mode) {
  return captures::begin(null, stream, [&] { return real(stream, mode); });
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
  return captures::begin(
      null, stream, [&] { return real(stream, graph, after, edges, count, mode); });
}

CUresult begin_recapture(Real<CUstream, CUstreamCaptureMode, CUgraph, void*, void*> real,
                         NullStream null,
                         CUstream stream,
                         CUstreamCaptureMode mode,
                         CUgraph graph,
                         void* callback,
                         void* data) {
  return captures::begin(
      null, stream, [&] { return real(stream, mode, graph, callback, data); });
}

// A capture may end by an error, too (invalidated, unjoined), and not every error ends one
// (wrong thread, not its first stream): what the stream says before and after decides.
CUresult end_capture(Real<CUstream, CUgraph*> real,
                     NullStream null,
                     CUstream stream,
                     CUgraph* out) {
  Allocator* const core = process::core();
  if (core == nullptr) return real(stream, out);
  const bool before = captures::is_capturing(*core, stream, null);
  const CUresult result = real(stream, out);
  // The graph first: it keeps the blocks that the end of the capture would let go.
  const bool first = holds(Rule::graphs_are_counted_before_their_capture_ends);
  if (first && result == CUDA_SUCCESS && out != nullptr) graphs::created(*core, *out);
  if (before && !captures::is_capturing(*core, stream, null)) core->capture_ended(stream, null);
  if (!first && result == CUDA_SUCCESS && out != nullptr) graphs::created(*core, *out);
  return result;
}

}  // namespace handlers
}  // namespace custash
