// SPDX-License-Identifier: MIT
#include "interpose/process/captures.hpp"

#include "interpose/process/process.hpp"

#include <atomic>

namespace custash::captures {
namespace {

// Order: none. A thread that launches such a graph got it from the thread that built it.
constinit std::atomic<bool> host_visible{false};
constinit std::atomic<bool> host_reaching{false};

}  // namespace

bool under_way() noexcept {
  const Allocator* const core = process::current.load(std::memory_order_acquire);
  return core != nullptr && core->captures_open() != 0;
}

bool is_capturing(Allocator& core, CUstream stream, NullStream null) noexcept {
  if (stream == nullptr && null == NullStream::PerThread) stream = CU_STREAM_PER_THREAD;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error means the legacy stream while another stream captures (906), or a bad handle.
  // Neither captures.
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

}  // namespace custash::captures
