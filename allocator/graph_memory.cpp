// SPDX-License-Identifier: MIT
// Proved: tests/models/capture.pml.
#include "allocator/graph_memory.hpp"

#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"

#include <utility>

namespace custash {
namespace {

// Between a capture_begins() and its capture_begin_done(): the stream's timeline, and the
// capture.
thread_local Timeline* beginning = nullptr;
thread_local Captures::Number beginning_capture = 0;

}  // namespace

// The driver's number of the capture that the stream is in; 0: it is not known.
std::uint64_t capture_of(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const bool told = driver.stream_get_capture_info != nullptr &&
                    driver.stream_get_capture_info(
                        stream, &status, &id, nullptr, nullptr, nullptr) == CUDA_SUCCESS;
  return told && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

void GraphMemory::capture_begins(CUstream stream, NullStream null) {
  const StreamPlace place = state_.place(stream, null);
  beginning = place ? &place.cache->timeline() : nullptr;
  if (beginning == nullptr) return;
  beginning_capture = state_.captures.begins(thread_number());
  state_.gate.capture_comes();
  state_.sleep_gate.pass();  // before the gate: a thread that closes it does the reverse
  visit_living(state_.all(), [](ContextCache& each) { each.timeline().prepare_capture(); });
  state_.gate.capture_begins();
}

void GraphMemory::capture_begin_done(CUstream stream,
                                     NullStream null,
                                     bool began,
                                     const void* graph) {
  Timeline* timeline = std::exchange(beginning, nullptr);
  if (timeline == nullptr) return;
  const Captures::Number number = beginning_capture;
  if (began) {
    Lock lock(state_.mutex);
    state_.open_captures.push_back({StreamName(stream, null), timeline, number});
    state_.captures_open.fetch_add(1);
  }
  state_.gate.capture_begun(began);
  if (began)
    state_.captures.begun(
        number, capture_of(state_.driver, Allocator::State::normalise(stream, null)), graph);
  else
    state_.release(state_.captures.ended(number, nullptr));
}

void GraphMemory::capture_ended(CUstream stream, NullStream null, const void* graph) {
  state_.close_capture(StreamName(stream, null), graph);
}

void GraphMemory::made(const void* handle, const void* from) {
  state_.release(state_.captures.replace(handle, from));
}

void GraphMemory::contains(const void* graph, const void* part) {
  state_.captures.add(graph, part);
}

void GraphMemory::node_changes() {
  if (state_.captures_open.load() != 0) state_.captures.takes_in({.thread = thread_number()});
}

GraphMemory::Leaving GraphMemory::leaves(const void* handle) {
  return state_.captures.detach(handle);
}

void GraphMemory::destroyed(const Leaving& leaving) {
  state_.release(state_.captures.drop(leaving));
}

void GraphMemory::stays(const void* handle, const Leaving& leaving) {
  state_.captures.put_back(handle, leaving);
}

}  // namespace custash
