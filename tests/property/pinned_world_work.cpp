// SPDX-License-Identifier: MIT
// Work of a program with pinned memory that runs: copies, kernels and graphs.
#include "tests/property/pinned_world.hpp"

#include <utility>

namespace custash::property {
namespace {

constexpr Bytes kOwnMemory = 96_MiB;  // no buffer is larger

}  // namespace

// Device memory of the stream alone, so that copies need no order but the stream's.
Address PinnedWorld::own_memory(const Command& c) {
  const int stream = c.stream == kLegacy ? kLegacyNull : c.stream;
  const sim::ThreadId thread = stream == kPerThread ? sim::this_thread() : 0;
  Address& own = memory_[{c.context, stream, thread}];
  if (own == 0) {
    CUdeviceptr made = 0;
    // The program's captures are not about this.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    if (cuMemAlloc(&made, kOwnMemory) != CUDA_SUCCESS)
      fail(Violation::Code, "no device memory for a stream");
    cuThreadExchangeStreamCaptureMode(&mode);
    own = made;
    detector_.on_alloc(own, kOwnMemory, sim::this_thread());
  }
  return own;
}

// As interpose/hooks/guard_calls.cpp does it.
CUresult PinnedWorld::waited(CUresult result) {
  if (result == CUDA_SUCCESS && cache_ != nullptr)
    door_->ours([&] {
      if (cache_->sampler() != nullptr) cache_->sampler()->waited();
      return CUDA_SUCCESS;
    });
  return result;
}

CUresult PinnedWorld::kernel(const Command& c, CUstream stream) {
  sim::Kernel kernel{.needs_flag = c.needs, .sets_flag = c.sets};
  const int origin = origin_of(c);
  for (const Use& use : c.uses) {
    const BlockObject* found = block(use.block);
    if (found == nullptr) continue;  // was shrunk
    kernel.accesses.push_back({found->address, found->bytes, use.write});
    if (origin >= 0) captured_[origin].push_back(use.block);
  }
  return door_->submit(stream, SubmissionKind::Hidden, 0, 0, [&] {
    return sim::launch(stream, std::move(kernel));
  });
}

CUresult PinnedWorld::work(const Command& c, CUstream stream) {
  if (c.op == Op::Kernel) return kernel(c, stream);
  const BlockObject* found = block(c.block);
  if (found == nullptr) return CUDA_SUCCESS;
  void* const buffer = reinterpret_cast<void*>(found->address);
  if (c.op == Op::HostName) {
    if (cache_ == nullptr) return CUDA_SUCCESS;
    return door_->ours(
        [&] { return cache_->record_stream(buffer, stream, NullStream::Legacy).code(); });
  }
  if (origin_of(c) >= 0) return CUDA_SUCCESS;  // was shrunk
  const Address device = own_memory(c);
  if (c.op == Op::CopyIn) {
    return door_->submit(stream, SubmissionKind::Hidden, device, 0, [&] {
      return cuMemcpyHtoDAsync(device, buffer, found->bytes, stream);
    });
  }
  const CUresult result = door_->submit(stream, SubmissionKind::Visible, device, 0, [&] {
    return cuMemcpyDtoHAsync(buffer, device, found->bytes, stream);
  });
  note_visible(c.context, stream);
  return result;
}

CUresult PinnedWorld::end_capture(const Command& c) {
  if (const CUresult ended = graphs(c); ended != CUDA_SUCCESS) return ended;
  Command next = c;
  next.op = Op::Instantiate;
  return graphs(next);
}

CUresult PinnedWorld::end_graph(const Command& c) {
  Command next = c;
  next.op = Op::DestroyExec;
  (void)graphs(next);
  next.op = Op::DestroyGraph;
  const CUresult result = graphs(next);
  graphs_.erase(c.other);
  return result;
}

}  // namespace custash::property
