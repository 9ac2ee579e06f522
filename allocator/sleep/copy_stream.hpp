// SPDX-License-Identifier: MIT
// CopyStream: the stream of a context on which custash copies contents and reads them, made at
// need. Belongs to the one thread that copies. Called without any lock held, with the context
// current.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/status.hpp"

namespace custash {

class CopyStream {
 public:
  explicit CopyStream(const Driver& driver) : driver_(driver) {}

  // Null: the driver makes none.
  CUstream get() {
    if (stream_ == nullptr &&
        driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
      stream_ = nullptr;
    return stream_;
  }

  // Returns when all work on it is over.
  Status wait() {
    if (stream_ == nullptr) return {};
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

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
  CUevent copied_ = nullptr;
};

}  // namespace custash
