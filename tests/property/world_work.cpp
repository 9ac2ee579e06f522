// SPDX-License-Identifier: MIT
// Work of a program that runs: kernels, copies, events, captures and graphs.
#include "tests/property/world.hpp"

#include <algorithm>
#include <utility>

namespace custash::property {

CUresult World::kernel(const Command& c, CUstream stream) {
  sim::Kernel kernel{.needs_flag = c.needs, .sets_flag = c.sets};
  for (const Use& use : c.uses) {
    const BlockObject* found = block(use.block);
    if (found == nullptr) continue;  // the program was shrunk
    kernel.accesses.push_back({found->address + use.offset, use.bytes, use.write});
    if (const auto capture = captured_.find(c.stream); capture != captured_.end())
      capture->second.push_back(use.block);
  }
  return door_->submit(
      stream, HostView::Hidden, 0, 0, [&] { return sim::launch(stream, std::move(kernel)); });
}

CUresult World::copy(const Command& c, CUstream stream) {
  if (c.op == Op::HostFunction) {
    const CUresult result = door_->submit(stream, HostView::Visible, 0, 0, [&] {
      return cuLaunchHostFunc(
          stream, [](void*) {}, nullptr);
    });
    note_visible(c.context, stream);
    return result;
  }
  const BlockObject* target = block(c.block);
  if (target == nullptr) return CUDA_SUCCESS;
  const Address address = target->address;
  if (c.op == Op::Memset) {
    return door_->submit(stream, HostView::Hidden, 0, 0, [&] {
      return cuMemsetD8Async(address, 1, target->bytes, stream);
    });
  }
  if (c.op == Op::CopyBlock) {
    const BlockObject* source = block(c.other);
    if (source == nullptr) return CUDA_SUCCESS;
    // The simulated peer copy reaches mapped memory of another device only with access to it.
    if (!setup_.device_copies && device_of(source->context) != device_of(target->context))
      return CUDA_SUCCESS;
    const Address from = source->address;
    return door_->submit(stream, HostView::Hidden, address, from, [&] {
      if (source->context == target->context)
        return cuMemcpyDtoDAsync(address, from, c.bytes, stream);
      return cuMemcpyPeerAsync(address,
                               contexts_[target->context],
                               from,
                               contexts_[source->context],
                               c.bytes,
                               stream);
    });
  }
  void* host = hosts_[static_cast<std::size_t>(c.other)];
  const Bytes bytes = std::min<Bytes>(target->bytes, kHostBufferBytes);
  if (c.op == Op::CopyFromHost) {
    return door_->submit(stream, HostView::Hidden, address, 0, [&] {
      return cuMemcpyHtoDAsync(address, host, bytes, stream);
    });
  }
  const CUresult result = door_->submit(stream, HostView::Visible, 0, address, [&] {
    return cuMemcpyDtoHAsync(host, address, bytes, stream);
  });
  note_visible(c.context, stream);
  return result;
}

CUresult World::events(const Command& c) {
  if (c.op == Op::EventRecord) {
    const CUstream* s = stream(c);
    if (s == nullptr) return CUDA_SUCCESS;
    EventObject& event = events_[c.other];
    event.context = c.context;
    if (event.handle == nullptr) {
      const CUresult made = cuEventCreate(&event.handle, CU_EVENT_DISABLE_TIMING);
      if (made != CUDA_SUCCESS) return made;
    }
    return cuEventRecord(event.handle, *s);
  }
  const auto found = events_.find(c.other);
  if (found == events_.end()) return CUDA_SUCCESS;
  const CUevent event = found->second.handle;
  if (c.op == Op::EventSync) return cuEventSynchronize(event);
  const CUstream* s = stream(c);
  if (s == nullptr) return CUDA_SUCCESS;
  const CUstream waiting = *s;
  return door_->submit(
      waiting, HostView::Wait, 0, 0, [&] { return cuStreamWaitEvent(waiting, event, 0); });
}

CUresult World::end_capture(int id, int graph) {
  StreamObject& object = streams_[id];
  const CUstream handle = object.handle;
  object.capturing = false;
  GraphObject made{
      .graph = nullptr, .exec = nullptr, .context = object.context, .blocks = captured_[id]};
  captured_.erase(id);
  const CUresult result =
      door_->end_capture(handle, [&] { return cuStreamEndCapture(handle, &made.graph); });
  if (result == CUDA_SUCCESS) graphs_[graph] = made;
  return result;
}

CUresult World::graphs(const Command& c) {
  if (c.op == Op::CaptureBegin || c.op == Op::CaptureEnd) {
    const auto found = streams_.find(c.stream);
    if (found == streams_.end()) return CUDA_SUCCESS;
    StreamObject& object = found->second;
    if (c.op == Op::CaptureEnd)
      return object.capturing ? end_capture(c.stream, c.other) : CUDA_SUCCESS;
    if (object.capturing) return CUDA_SUCCESS;
    const auto mode =
        c.flags == 1 ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
    const CUresult result = door_->begin_capture(
        object.handle, [&] { return cuStreamBeginCapture(object.handle, mode); });
    object.capturing = result == CUDA_SUCCESS;
    if (object.capturing) captured_[c.stream];
    return result;
  }
  const auto found = graphs_.find(c.other);
  if (found == graphs_.end()) return CUDA_SUCCESS;
  GraphObject& object = found->second;
  CUgraphExec exec = object.exec;
  if (c.op == Op::Instantiate) {
    if (exec != nullptr || object.graph == nullptr) return CUDA_SUCCESS;
    return door_->make_graph(
        [&] { return cuGraphInstantiateWithFlags(&object.exec, object.graph, 0); });
  }
  if (c.op == Op::DestroyGraph) {
    if (object.graph == nullptr) return CUDA_SUCCESS;
    CUgraph graph = std::exchange(object.graph, nullptr);
    return door_->destroy_graph([&] { return cuGraphDestroy(graph); });
  }
  if (exec == nullptr) return CUDA_SUCCESS;
  if (c.op == Op::DestroyExec) {
    object.exec = nullptr;
    return door_->destroy_graph([&] { return cuGraphExecDestroy(exec); });
  }
  const CUstream* s = stream(c);
  // A block of it may be missing in a shrunk program.
  const bool whole = std::all_of(
      object.blocks.begin(), object.blocks.end(), [&](int id) { return block(id) != nullptr; });
  if (s == nullptr || !whole) return CUDA_SUCCESS;
  return door_->submit(*s, HostView::Graph, 0, 0, [&] { return cuGraphLaunch(exec, *s); });
}

}  // namespace custash::property
