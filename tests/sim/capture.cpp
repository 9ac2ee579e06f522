// SPDX-License-Identifier: MIT
#include "tests/sim/capture.hpp"

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

CUresult enqueue(Frame& f, Stream& s, Work work, OpId* op) {
  const CUresult refused = admit(f.world, s);
  if (refused != CUDA_SUCCESS) return refused;
  if (s.capture != nullptr) {
    for (Access& access : work.accesses)
      access.context_id = s.context->id;
    std::vector<GraphNode>& nodes = s.capture->graph.nodes;
    nodes.push_back({std::move(work), s.tips});
    s.tips = {static_cast<int>(nodes.size()) - 1};
    if (op != nullptr) *op = 0;
    return CUDA_SUCCESS;
  }
  const CUresult room = work.kernel ? wait_for_room(f.world, f.thread, s) : CUDA_SUCCESS;
  if (room != CUDA_SUCCESS) return room;
  const OpId id = submit(
      f.world,
      {.context = s.context, .stream = &s, .thread = f.thread.id, .work = std::move(work)});
  if (op != nullptr) *op = id;
  return CUDA_SUCCESS;
}

void end_capture(World& w, Capture& capture) {
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
               Graph* into,
               CUgraph into_handle) {
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
  capture->into = into;
  capture->into_handle = into_handle;
  s->capture = capture.get();
  s->tips.clear();
  f.world.captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

// Whether the origin stream comes after everything that was forked from it.
bool joined(const Capture& capture) {
  const std::vector<GraphNode>& nodes = capture.graph.nodes;
  std::vector<char> reached(nodes.size(), 0);
  for (const int tip : capture.origin->tips)
    reached[static_cast<std::size_t>(tip)] = 1;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (reached[i] != 0)
      for (const int before : nodes[i].after)
        reached[static_cast<std::size_t>(before)] = 1;
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* s) {
    return std::all_of(s->tips.begin(), s->tips.end(), [&](int tip) {
      return reached[static_cast<std::size_t>(tip)] != 0;
    });
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
  if (!capture->valid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!joined(*capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  } else if (capture->into != nullptr) {
    auto& nodes = capture->into->nodes;
    const int offset = static_cast<int>(nodes.size());
    for (GraphNode& node : capture->graph.nodes) {
      for (int& before : node.after)
        before += offset;
      nodes.push_back(std::move(node));
    }
    if (out != nullptr) *out = capture->into_handle;
  } else if (out != nullptr) {
    *out = f.world.graphs.add<CUgraph>(std::make_unique<Graph>(std::move(capture->graph)));
  }
  end_capture(f.world, *capture);
  return result;
}

CUresult info(
    Frame& f, Door door, CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
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
  return CUDA_SUCCESS;
}

}  // namespace

SIM_DOORS(cuStreamBeginCapture, _ptsz, (CUstream s), (s)) {
  return SIM_DOOR(Context) {
    return begin(f, door, s, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, nullptr);
  });
}

SIM_DOORS(cuStreamBeginCapture_v2, _ptsz, (CUstream s, CUstreamCaptureMode mode), (s, mode)) {
  return SIM_DOOR(Context) {
    return begin(f, door, s, mode, nullptr, nullptr);
  });
}

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
    Graph* into = f.world.graphs.get(graph);
    if (into == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return begin(f, door, s, mode, into, graph);
  });
}

SIM_DOORS(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph* graph), (stream, graph)) {
  return SIM_DOOR(Context) {
    Stream* s = find_stream(f, door, stream);
    return s == nullptr ? CUDA_ERROR_INVALID_HANDLE : end(f, *s, graph);
  });
}

SIM_DOORS(cuStreamIsCapturing,
          _ptsz,
          (CUstream s, CUstreamCaptureStatus* status),
          (s, status)) {
  return SIM_DOOR(Context) {
    return info(f, door, s, status, nullptr);
  });
}

SIM_DOORS(cuStreamGetCaptureInfo,
          _ptsz,
          (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id),
          (s, status, id)) {
  return SIM_DOOR(Context) {
    return info(f, door, s, status, id);
  });
}

SIM_DOORS(cuStreamGetCaptureInfo_v2,
          _ptsz,
          (CUstream s,
           CUstreamCaptureStatus* status,
           cuuint64_t* id,
           CUgraph* graph,
           const CUgraphNode** nodes,
           size_t* n),
          (s, status, id, graph, nodes, n)) {
  return SIM_DOOR(Context) {
    if (graph != nullptr) *graph = nullptr;  // the graph being made has no handle here
    if (nodes != nullptr) *nodes = nullptr;
    if (n != nullptr) *n = 0;
    return info(f, door, s, status, id);
  });
}

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
  return SIM_DOOR(Context) {
    if (graph != nullptr) *graph = nullptr;
    if (nodes != nullptr) *nodes = nullptr;
    if (edges != nullptr) *edges = nullptr;
    if (n != nullptr) *n = 0;
    return info(f, door, s, status, id);
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
