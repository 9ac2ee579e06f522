// SPDX-License-Identifier: MIT
#include "allocator/cache/copy_stream.hpp"

namespace custash {

CUstream CopyStream::get() {
  if (stream_ == nullptr &&
      driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    stream_ = nullptr;
  return stream_;
}

Status CopyStream::wait() {
  if (copied_ == nullptr) {
    const Status made = driver_.event_create(&copied_, CU_EVENT_DISABLE_TIMING);
    if (!made.ok()) {
      copied_ = nullptr;
      return driver_.ctx_synchronize();
    }
  }
  const Status recorded = driver_.event_record(copied_, stream_);
  const Status waited = recorded.ok() ? Status(driver_.event_synchronize(copied_)) : recorded;
  return waited.ok() ? waited : Status(driver_.ctx_synchronize());
}

}  // namespace custash
