// SPDX-License-Identifier: MIT
// Tensor::copy_: between any two places. On one device and to or from the host the copy is the
// current stream's; between two devices the source's, with the target's current stream in order
// before and after it, as PyTorch does.
#include "tests/harness/dispatch.hpp"

#include <cstring>

namespace custash::harness {
namespace {

// The one of the two that is on a device has the stream. The host waits unless told not to, and
// the driver waits for pageable memory whatever it is told.
void copy_over_the_bus(const Tensor& to, const Tensor& from, cudaMemcpyKind kind, Copy how) {
  const Tensor& there = to.is_cuda() ? to : from;
  const Stream stream = Stream::current(there.device().index());
  use_device(stream.device());
  check(cudaMemcpyAsync(to.data(), from.data(), to.nbytes(), kind, stream.get()),
        "cudaMemcpyAsync");
  const Tensor& host = to.is_cuda() ? from : to;
  if (how == Copy::Blocking)
    stream.synchronize();
  else
    host.record_stream(stream);  // of pinned memory: who still uses it when it is freed
}

void copy_on_device(const Tensor& to, const Tensor& from) {
  const Stream stream = Stream::current(to.device().index());
  use_device(stream.device());
  check(cudaMemcpyAsync(
            to.data(), from.data(), to.nbytes(), cudaMemcpyDeviceToDevice, stream.get()),
        "cudaMemcpyAsync");
}

void copy_between_devices(const Tensor& to, const Tensor& from) {
  const Stream source = Stream::current(from.device().index());
  const Stream target = Stream::current(to.device().index());
  source.wait_stream(target);
  use_device(source.device());
  check(
      cudaMemcpyPeerAsync(
          to.data(), target.device(), from.data(), source.device(), to.nbytes(), source.get()),
      "cudaMemcpyPeerAsync");
  target.wait_stream(source);
}

}  // namespace

const Tensor& Tensor::copy_(const Tensor& from, Copy how) const {
  if (from.numel() != numel()) throw std::invalid_argument("copy_: another number of elements");
  if (from.dtype() != dtype()) return copy_(from.to(dtype()), how);
  if (nbytes() == 0 || is_same(from)) return *this;
  if (!is_cuda() && !from.is_cuda()) {
    host_touches(from, detector::Touch::Read);
    host_touches(*this, detector::Touch::Write);
    std::memcpy(data(), from.data(), nbytes());
  } else if (!from.is_cuda()) {
    copy_over_the_bus(*this, from, cudaMemcpyHostToDevice, how);
  } else if (!is_cuda()) {
    copy_over_the_bus(*this, from, cudaMemcpyDeviceToHost, how);
  } else if (device() == from.device()) {
    copy_on_device(*this, from);
  } else {
    copy_between_devices(*this, from);
  }
  return *this;
}

}  // namespace custash::harness
