// SPDX-License-Identifier: MIT
#include "tests/harness/loader.hpp"

namespace custash::harness {

PrefetchLoader::PrefetchLoader(Shape shape, DType dtype, Fill fill, int device)
    : fill_(std::move(fill)), side_(Stream::make(device)) {
  for (Buffer& buffer : buffers_)
    buffer.pinned = empty(shape, {dtype, Device::cpu(), true});
  prefetch();
}

Tensor PrefetchLoader::next() {
  Tensor batch = std::move(ready_);
  ready_ = Tensor();
  if (!batch.defined()) return batch;
  const Stream user = Stream::current(side_.device());
  user.wait_stream(side_);
  batch.record_stream(user);  // it is the side stream's memory
  prefetch();
  return batch;
}

void PrefetchLoader::prefetch() {
  Buffer& buffer = buffers_[static_cast<std::size_t>(made_ % 2)];
  buffer.copied.synchronize();
  if (!fill_(made_, buffer.pinned)) return;
  ++made_;
  const StreamGuard guard(side_);
  ready_ = buffer.pinned.to(Device::cuda(side_.device()), Copy::NonBlocking);
  buffer.copied.record(side_);
}

}  // namespace custash::harness
