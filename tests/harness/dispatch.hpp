// SPDX-License-Identifier: MIT
// How one kind of work is done on a tensor's device: a loop on the CPU, a launch on CUDA.
#pragma once

#include "tests/harness/detector.hpp"
#include "tests/harness/kernels.hpp"
#include "tests/harness/tensor.hpp"

#include <initializer_list>

namespace custash::harness {

// Only pinned memory is of interest: work of a device may be at it as well.
inline void host_touches(const Tensor& tensor, detector::Touch touch) {
  if (tensor.is_pinned()) detector::touched_by_host(tensor.data(), tensor.nbytes(), touch);
}

template <typename Work>
void dispatch(const Work& work, const Tensor& out, std::initializer_list<Tensor> from = {}) {
  if (out.is_cuda()) {
    const Stream stream = Stream::current(out.device().index());
    use_device(stream.device());
    check(kernels::launch(work, stream.get()), "kernel launch");
    return;
  }
  for (const Tensor& each : from)
    host_touches(each, detector::Touch::Read);
  host_touches(out, detector::Touch::Write);
  for (std::uint64_t i = 0; i < work.count(); ++i)
    work(i);
}

}  // namespace custash::harness
