// SPDX-License-Identifier: MIT
// What can serve a trace's requests, each with the same four functions. No state of their own.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/submission.hpp"
#include "tools/replay/device.hpp"
#include "tools/replay/meter.hpp"
#include "tools/replay/trace.hpp"

#include <algorithm>

namespace custash::replay {

// As a program under custash meets it; the hooks are left out, the submissions are not.
struct ThroughCustash {
  Allocator& allocator;
  Device& device;

  bool allocate(const Event& event, Address* out) {
    if (event.stream == kNoStream)
      return allocator.allocate(device.context(), event.bytes, out).ok();
    return allocator
        .allocate_on(
            device.context(), device.stream(event.stream), NullStream::Legacy, event.bytes, out)
        .ok();
  }

  bool free(const Event& event, Address address) {
    const auto status =
        event.stream == kNoStream
            ? allocator.free(address)
            : allocator.free_on(address, device.stream(event.stream), NullStream::Legacy);
    return status.has_value() && status->ok();
  }

  bool submit(const Event& event, Address address) {
    const CUstream stream = device.stream(event.stream);
    Submission submission(allocator, stream, NullStream::Legacy, SubmissionKind::Hidden);
    const CUresult result = device.submit(stream, address, event.bytes);
    submission.done(result);
    return result == CUDA_SUCCESS;
  }
};

// Every request a cuMemAlloc, whichever stream it names. What is held is asked of the device,
// as the driver cuts small blocks from slabs of its own.
class ThroughDriver {
 public:
  ThroughDriver(const Meter& meter, Device& device)
      : meter_(meter), device_(device), before_(device.used()) {}

  bool allocate(const Event& event, Address* out) {
    CUdeviceptr address = 0;
    const bool ok = Meter::driver().mem_alloc(&address, event.bytes) == CUDA_SUCCESS;
    *out = address;
    peak_ = std::max(peak_, held());
    return ok;
  }

  bool free(const Event&, Address address) {
    return Meter::driver().mem_free(address) == CUDA_SUCCESS;
  }

  bool submit(const Event& event, Address address) {
    return device_.submit(device_.stream(event.stream), address, event.bytes) == CUDA_SUCCESS;
  }

  [[nodiscard]] Bytes held() const { return device_.used() - before_; }

  [[nodiscard]] Bytes peak() const { return peak_; }

  [[nodiscard]] std::vector<CallRow> rows() const { return meter_.rows(); }

 private:
  const Meter& meter_;
  Device& device_;
  Bytes before_;
  Bytes peak_ = 0;
};

// The driver's own stream-ordered pool, which keeps all that it has had.
class ThroughPool {
 public:
  explicit ThroughPool(Device& device);

  bool allocate(const Event& event, Address* out);
  bool free(const Event& event, Address address);
  bool submit(const Event& event, Address address);

  [[nodiscard]] Bytes held() const;
  [[nodiscard]] Bytes peak() const;

  [[nodiscard]] std::vector<CallRow> rows() const { return {allocs_, frees_}; }

 private:
  [[nodiscard]] Bytes attribute(CUmemPool_attribute which) const;

  Device& device_;
  CUresult (*alloc_)(CUdeviceptr*, size_t, CUstream) = nullptr;
  CUresult (*free_)(CUdeviceptr, CUstream) = nullptr;
  CUresult (*get_)(CUmemoryPool, CUmemPool_attribute, void*) = nullptr;
  CUmemoryPool pool_ = nullptr;
  CallRow allocs_{"cuMemAllocAsync"};
  CallRow frees_{"cuMemFreeAsync"};
};

}  // namespace custash::replay
