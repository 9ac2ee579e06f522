// SPDX-License-Identifier: MIT
// Captures and graphs of a program that runs.
#include "tests/property/world_base.hpp"

#include <algorithm>
#include <utility>

namespace custash::property {

// By an event that is made for it. Where the other captures, the stream is drawn in.
CUresult WorldBase::wait_for_stream(int context, int waiting, int other) {
  const auto from = streams_.find(other);
  const auto to = streams_.find(waiting);
  if (from == streams_.end() || to == streams_.end() || to->second.context != context)
    return CUDA_SUCCESS;
  if (from->second.capturing() != to->second.capturing() && !from->second.capturing())
    return CUDA_SUCCESS;  // the program was shrunk
  CUevent event = nullptr;
  use_context(from->second.context);
  CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = cuEventRecord(event, from->second.handle);
  use_context(context);
  const CUstream stream = to->second.handle;
  if (result == CUDA_SUCCESS)
    result = door_->submit(stream, SubmissionKind::Wait, 0, 0, [&] {
      return cuStreamWaitEvent(stream, event, 0);
    });
  if (result == CUDA_SUCCESS) to->second.origin = from->second.origin;
  (void)cuEventDestroy(event);
  return result;
}

CUresult WorldBase::end_capture(int id, int graph) {
  StreamObject& object = streams_[id];
  const CUstream handle = object.handle;
  CUresult joined = CUDA_SUCCESS;
  for (const auto& [each, stream] : streams_) {
    if (stream.origin != id || each == id) continue;
    const CUresult result = wait_for_stream(object.context, id, each);
    if (joined == CUDA_SUCCESS) joined = result;
  }
  GraphObject made{
      .graph = nullptr, .exec = nullptr, .context = object.context, .blocks = captured_[id]};
  captured_.erase(id);
  for (auto& [each, stream] : streams_) {
    if (stream.origin == id) stream.origin = -1;
  }
  const CUresult result = door_->end_capture(
      handle, &made.graph, [&] { return cuStreamEndCapture(handle, &made.graph); });
  if (result != CUDA_SUCCESS) return result;
  if (graph >= 0) {
    graphs_[graph] = made;
  } else {
    (void)destroy_graph(made, false);
  }
  return joined;
}

// With both of them goes what the capture has freed.
CUresult WorldBase::destroy_graph(GraphObject& object, bool executable) {
  CUgraph graph = executable ? nullptr : std::exchange(object.graph, nullptr);
  CUgraphExec exec = executable ? std::exchange(object.exec, nullptr) : nullptr;
  if (object.graph == nullptr && object.exec == nullptr) {
    for (const int id : object.blocks) {
      const auto found = held_.find(id);
      if (found == held_.end()) continue;
      detector_.on_free(found->second.address, sim::this_thread());
      held_.erase(found);
    }
  }
  const void* const handle = executable ? static_cast<const void*>(exec) : graph;
  return door_->destroy_graph(
      handle, [&] { return executable ? cuGraphExecDestroy(exec) : cuGraphDestroy(graph); });
}

void WorldBase::destroy_graphs(int context) {
  for (auto& [id, graph] : graphs_) {
    if (graph.context != context) continue;
    if (graph.exec != nullptr) (void)destroy_graph(graph, true);
    if (graph.graph != nullptr) (void)destroy_graph(graph, false);
  }
  std::erase_if(graphs_, [&](const auto& each) { return each.second.context == context; });
}

CUresult WorldBase::graphs(const Command& c) {
  if (c.op == Op::StreamWait) return wait_for_stream(c.context, c.stream, c.other);
  if (c.op == Op::CaptureBegin || c.op == Op::CaptureEnd) {
    const auto found = streams_.find(c.stream);
    if (found == streams_.end()) return CUDA_SUCCESS;
    StreamObject& object = found->second;
    if (c.op == Op::CaptureEnd)
      return object.origin == c.stream ? end_capture(c.stream, c.other) : CUDA_SUCCESS;
    if (object.capturing()) return CUDA_SUCCESS;
    const auto mode =
        c.flags == 1 ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
    const CUresult result = door_->begin_capture(
        object.handle, [&] { return cuStreamBeginCapture(object.handle, mode); });
    if (result == CUDA_SUCCESS) object.origin = c.stream;
    return result;
  }
  const auto found = graphs_.find(c.other);
  if (found == graphs_.end()) return CUDA_SUCCESS;
  GraphObject& object = found->second;
  CUgraphExec exec = object.exec;
  if (c.op == Op::Instantiate) {
    if (exec != nullptr || object.graph == nullptr) return CUDA_SUCCESS;
    return door_->instantiate(&object.exec, object.graph, [&] {
      return cuGraphInstantiateWithFlags(&object.exec, object.graph, 0);
    });
  }
  if (c.op == Op::DestroyGraph)
    return object.graph == nullptr ? CUDA_SUCCESS : destroy_graph(object, false);
  if (exec == nullptr) return CUDA_SUCCESS;
  if (c.op == Op::DestroyExec) return destroy_graph(object, true);
  const CUstream* s = stream(c);
  // A block of it may be missing in a shrunk program.
  const bool whole = std::all_of(object.blocks.begin(), object.blocks.end(), [&](int id) {
    return block(id) != nullptr || held_.count(id) != 0;
  });
  if (s == nullptr || !whole) return CUDA_SUCCESS;
  return door_->submit(
      *s, SubmissionKind::Graph, 0, 0, [&] { return cuGraphLaunch(exec, *s); });
}

}  // namespace custash::property
