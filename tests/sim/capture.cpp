// SPDX-License-Identifier: MIT
#include "tests/sim/capture.hpp"

#include "tests/sim/graph.hpp"

#include <algorithm>

namespace custash::sim {

void invalidate(Capture& capture) {
  capture.valid = false;
}

Capture* capture_by_id(World& w, std::uint64_t id) {
  for (const auto& capture : w.captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

CUresult forbid_unsafe(World& w, ThreadState& thread) {
  CUresult result = CUDA_SUCCESS;
  if (thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return result;
  const bool others_count = thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  for (const auto& capture : w.captures) {
    const bool own = capture->thread == thread.id;
    const bool forbids = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : others_count && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult forbid_in_context(World& w, const Context& c) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : w.captures) {
    const bool here =
        std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* s) {
          return s->context == &c || s->context->home == &c;
        });
    if (!here) continue;
    invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult forbid_on_stream(World& w, ThreadState& thread, Stream& s) {
  if (s.capture != nullptr) {
    const bool was_valid = s.capture->valid;
    invalidate(*s.capture);
    return was_valid ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                     : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  return forbid_unsafe(w, thread);
}

CUresult admit(World& w, Stream& s) {
  if (s.capture != nullptr)
    return s.capture->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (s.kind != StreamKind::Legacy) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : w.captures) {
    // The legacy stream would have to come after a stream that is not running, only recorded.
    const bool implied =
        std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* o) {
          return o->context == s.context && o->blocking();
        });
    if (!implied) continue;
    invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

Graph* graph_of(World& w, const Capture& capture) {
  return w.graphs.get(capture.graph);
}

CUresult capture_node(World& w, Stream& s, GraphNode node) {
  Graph* graph = graph_of(w, *s.capture);
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node.context_id = s.context->id;
  node.after = s.tips;
  s.tips = {add_node(w, *graph, std::move(node))};
  return CUDA_SUCCESS;
}

CUresult enqueue(Frame& f, Stream& s, Work work, OpId* op) {
  SIM_TRY(admit(f.world, s));
  if (s.capture != nullptr) {
    CUgraphNodeType type = work.type;
    if (work.kernel) type = CU_GRAPH_NODE_TYPE_KERNEL;
    if (work.host) type = CU_GRAPH_NODE_TYPE_HOST;
    if (op != nullptr) *op = 0;
    return capture_node(f.world, s, {.type = type, .work = std::move(work)});
  }
  const OpId id = submit(
      f.world,
      {.context = s.context, .stream = &s, .thread = f.thread.id, .work = std::move(work)});
  if (op != nullptr) *op = id;
  return CUDA_SUCCESS;
}

void end_capture(World& w, Capture& capture) {
  if (!capture.into_existing) drop_graph(w, capture.graph);
  for (Stream* s : capture.streams) {
    s->capture = nullptr;
    s->tips.clear();
  }
  w.captures.erase(std::find_if(w.captures.begin(), w.captures.end(), [&](const auto& c) {
    return c.get() == &capture;
  }));
}

void leave_capture(World& w, Stream& s) {
  Capture* capture = s.capture;
  if (capture == nullptr) return;
  invalidate(*capture);
  if (capture->origin == &s) return end_capture(w, *capture);
  auto& streams = capture->streams;
  streams.erase(std::find(streams.begin(), streams.end(), &s));
}

namespace {

CUresult begin(Frame& f,
               Door door,
               CUstream handle,
               CUstreamCaptureMode mode,
               CUgraph into = nullptr,
               std::vector<NodeId> after = {}) {
  Stream* s = find_stream(f, door, handle);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (s->kind == StreamKind::Legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (s->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_unique<Capture>();
  capture->id = f.world.next_serial++;
  capture->context_id = s->context->id;
  capture->origin = s;
  capture->thread = f.thread.id;
  capture->mode = mode;
  capture->streams = {s};
  capture->into_existing = into != nullptr;
  capture->graph =
      into != nullptr ? into : f.world.graphs.add<CUgraph>(std::make_unique<Graph>());
  s->capture = capture.get();
  s->tips = std::move(after);
  f.world.captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

// Whether the origin stream comes after everything that was forked from it.
bool joined(const Capture& capture, const Graph& graph) {
  std::set<NodeId> reached(capture.origin->tips.begin(), capture.origin->tips.end());
  for (std::vector<NodeId> open(reached.begin(), reached.end()); !open.empty();) {
    const GraphNode* node = find_node(graph, open.back());
    open.pop_back();
    for (const NodeId before : node->after)
      if (reached.insert(before).second) open.push_back(before);
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* s) {
    return std::all_of(
        s->tips.begin(), s->tips.end(), [&](NodeId tip) { return reached.count(tip) != 0; });
  });
}

CUresult end(Frame& f, Stream& s, CUgraph* out) {
  Capture* capture = s.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != f.thread.id)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (capture->origin != &s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (out != nullptr) *out = nullptr;
  CUresult result = CUDA_SUCCESS;
  const Graph* graph = graph_of(f.world, *capture);
  if (!capture->valid || graph == nullptr) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!joined(*capture, *graph)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  } else if (out != nullptr) {
    *out = capture->graph;
    capture->into_existing = true;  // it is the program's
  }
  end_capture(f.world, *capture);
  return result;
}

// What a program is told of a capture beyond its state: its graph, and what comes next comes
// behind.
struct Told {
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  size_t* count = nullptr;
};

void tell(World& w, const Stream& s, const Told& told) {
  static thread_local std::vector<CUgraphNode> tips;  // valid until the next such call
  Graph* graph = graph_of(w, *s.capture);
  tips.clear();
  for (const NodeId tip : s.tips)
    if (GraphNode* node = graph == nullptr ? nullptr : find_node(*graph, tip))
      tips.push_back(handle_of(w, s.capture->graph, *node));
  if (told.graph != nullptr) *told.graph = s.capture->graph;
  if (told.nodes != nullptr) *told.nodes = tips.data();
  if (told.count != nullptr) *told.count = tips.size();
}

CUresult info(Frame& f,
              Door door,
              CUstream handle,
              CUstreamCaptureStatus* status,
              cuuint64_t* id,
              const Told& told = {}) {
  Stream* s = find_stream(f, door, handle);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture == nullptr) {
    // Asked of the legacy stream while a blocking one captures: the documented refusal,
    // harmless.
    if (s->kind == StreamKind::Legacy)
      for (const auto& capture : f.world.captures)
        for (const Stream* o : capture->streams)
          if (o->context == s->context && o->blocking())
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status = s->capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                              : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  if (id != nullptr) *id = s->capture->id;
  tell(f.world, *s, told);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_DOORS_IS(cuStreamBeginCapture,
             Context,
             (CUstream s),
             begin(f, door, s, CU_STREAM_CAPTURE_MODE_GLOBAL))
SIM_DOORS_IS(cuStreamBeginCapture_v2,
             Context,
             (CUstream s, CUstreamCaptureMode mode),
             begin(f, door, s, mode))

SIM_DOORS(cuStreamBeginCaptureToGraph,
          _ptsz,
          (CUstream s,
           CUgraph graph,
           const CUgraphNode* after,
           const void* edges,
           size_t n,
           CUstreamCaptureMode mode),
          (s, graph, after, edges, n, mode)) {
  return SIM_DOOR(Context) {
    auto behind = ids_of(f.world, graph, after, n);
    if (f.world.graphs.get(graph) == nullptr || !behind) return CUDA_ERROR_INVALID_VALUE;
    return begin(f, door, s, mode, graph, *std::move(behind));
  });
}

SIM_DOORS(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph* graph), (stream, graph)) {
  return SIM_DOOR(Context) {
    Stream* s = find_stream(f, door, stream);
    return s == nullptr ? CUDA_ERROR_INVALID_HANDLE : end(f, *s, graph);
  });
}

SIM_ON_STREAM(cuStreamIsCapturing,
              s,
              (CUstream s, CUstreamCaptureStatus* status),
              info(f, door, s, status, nullptr))
SIM_ON_STREAM(cuStreamGetCaptureInfo,
              s,
              (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id),
              info(f, door, s, status, id))
SIM_ON_STREAM(cuStreamGetCaptureInfo_v2,
              s,
              (CUstream s,
               CUstreamCaptureStatus* status,
               cuuint64_t* id,
               CUgraph* graph,
               const CUgraphNode** nodes,
               size_t* n),
              info(f, door, s, status, id, {graph, nodes, n}))

SIM_DOORS(cuStreamGetCaptureInfo_v3,
          _ptsz,
          (CUstream s,
           CUstreamCaptureStatus* status,
           cuuint64_t* id,
           CUgraph* graph,
           const CUgraphNode** nodes,
           const void** edges,
           size_t* n),
          (s, status, id, graph, nodes, edges, n)) {
  return SIM_DOOR_ON(s) {
    if (edges != nullptr) *edges = nullptr;
    return info(f, door, s, status, id, {graph, nodes, n});
  });
}

SIM_ENTRY(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode)) {
  return SIM_CALL(cuThreadExchangeStreamCaptureMode, Init) {
    if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, f.thread.capture_mode);
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
