// SPDX-License-Identifier: MIT
// Work of a program with pinned memory that runs: copies, kernels, events, captures and graphs.
#include "allocator/graph_memory.hpp"
#include "tests/property/pinned_world_calls.hpp"

#include <algorithm>
#include <utility>

namespace custash::property {

CUresult PinnedWorld::work(const PinCommand& c, CUstream stream) {
  const Buffer* found = buffer(c.buffer);
  if (c.op == PinOp::Name) {
    if (found == nullptr || cache_ == nullptr) return CUDA_SUCCESS;
    return ours([&] {
      return cache_->record_stream(found->address, stream, NullStream::Legacy).code();
    });
  }
  if (c.op == PinOp::Kernel) {
    sim::Kernel kernel{.needs_flag = c.needs, .sets_flag = c.sets};
    if (found != nullptr) {
      kernel.accesses.push_back(
          {reinterpret_cast<Address>(found->address), found->bytes, c.flags == 1});
      if (const auto capture = captured_.find(c.stream); capture != captured_.end())
        capture->second.push_back(c.buffer);
    }
    return submit(stream, SubmissionKind::Hidden, 0, [&] {
      return sim::launch(stream, std::move(kernel));
    });
  }
  if (found == nullptr || captured_.count(c.stream) != 0) return CUDA_SUCCESS;  // was shrunk
  const Address device = own_memory(c);
  if (c.op == PinOp::CopyIn) {
    return submit(stream, SubmissionKind::Hidden, device, [&] {
      return cuMemcpyHtoDAsync(device, found->address, found->bytes, stream);
    });
  }
  const CUresult result = submit(stream, SubmissionKind::Visible, device, [&] {
    return cuMemcpyDtoHAsync(found->address, device, found->bytes, stream);
  });
  visible_.emplace_back(c.context, sim::last_op(stream));
  return result;
}

CUresult PinnedWorld::streams(const PinCommand& c) {
  if (c.op == PinOp::CreateStream) {
    Stream made{.handle = nullptr, .context = c.context};
    const CUresult result =
        cuStreamCreate(&made.handle, c.flags == 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    if (result == CUDA_SUCCESS) streams_[c.stream] = made;
    return result;
  }
  const CUstream* s = stream(c);
  if (s == nullptr || c.stream < kFirstStream || streams_[c.stream].capturing)
    return CUDA_SUCCESS;
  const CUstream handle = *s;
  streams_.erase(c.stream);
  if (core_ != nullptr) ours([&] { return core_->stream_destroyed(handle), 0; });
  return cuStreamDestroy(handle);
}

CUresult PinnedWorld::events(const PinCommand& c, CUstream stream) {
  if (c.op == PinOp::EventRecord) {
    auto& [made, context] = events_[c.other];
    context = c.context;
    if (made == nullptr) cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
    return cuEventRecord(made, stream);
  }
  CUevent const event = events_[c.other].first;
  if (event == nullptr) return CUDA_SUCCESS;
  return submit(
      stream, SubmissionKind::Wait, 0, [&] { return cuStreamWaitEvent(stream, event, 0); });
}

CUresult PinnedWorld::end_capture(int id, int graph) {
  Stream& object = streams_[id];
  object.capturing = false;
  Graph made{.context = object.context, .buffers = captured_[id]};
  captured_.erase(id);
  CUresult result = cuStreamEndCapture(object.handle, &made.graph);
  if (core_ != nullptr) {
    ours([&] {
      return GraphMemory(*core_).capture_ended(object.handle, NullStream::Legacy, nullptr), 0;
    });
  }
  if (result != CUDA_SUCCESS) return result;
  result = cuGraphInstantiateWithFlags(&made.exec, made.graph, 0);
  graphs_[graph] = made;
  return result;
}

CUresult PinnedWorld::graphs(const PinCommand& c) {
  if (c.op == PinOp::CaptureBegin || c.op == PinOp::CaptureEnd) {
    const auto found = streams_.find(c.stream);
    if (found == streams_.end()) return CUDA_SUCCESS;
    Stream& object = found->second;
    if (c.op == PinOp::CaptureEnd)
      return object.capturing ? end_capture(c.stream, c.other) : CUDA_SUCCESS;
    if (object.capturing) return CUDA_SUCCESS;
    if (core_ != nullptr)
      ours([&] {
        return GraphMemory(*core_).capture_begins(object.handle, NullStream::Legacy), 0;
      });
    const CUresult result = cuStreamBeginCapture(
        object.handle,
        c.flags == 1 ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL);
    object.capturing = result == CUDA_SUCCESS;
    if (core_ != nullptr) {
      ours([&] {
        GraphMemory(*core_).capture_begin_done(
            object.handle, NullStream::Legacy, object.capturing);
        return 0;
      });
    }
    if (object.capturing) captured_[c.stream];
    return result;
  }
  const auto found = graphs_.find(c.other);
  if (found == graphs_.end()) return CUDA_SUCCESS;
  const Graph object = found->second;
  if (c.op == PinOp::EndGraph) {
    graphs_.erase(found);
    cuGraphExecDestroy(object.exec);
    return cuGraphDestroy(object.graph);
  }
  const CUstream* s = stream(c);
  const bool whole = std::all_of(object.buffers.begin(), object.buffers.end(), [&](int id) {
    return buffer(id) != nullptr;
  });
  if (s == nullptr || !whole) return CUDA_SUCCESS;  // was shrunk
  return submit(*s, SubmissionKind::Graph, 0, [&] { return cuGraphLaunch(object.exec, *s); });
}

}  // namespace custash::property
