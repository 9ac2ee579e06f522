// SPDX-License-Identifier: MIT
// Scopes around custash's own driver calls. They make the right context current, and relax the
// thread's capture mode, so that the calls neither fail nor invalidate a capture of the
// program's.
#pragma once

#include "allocator/base/driver.hpp"

namespace custash {

class CurrentContext {
 public:
  CurrentContext(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    if (driver.ctx_get_current(&current) == CUDA_SUCCESS && current == context) return;
    status_ = driver.ctx_push(context);
    pushed_ = status_.ok();
  }

  // Not ok: another context is current, and objects would be created in that one.
  [[nodiscard]] Status status() const { return status_; }

  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_)
      Status(driver_.ctx_pop(&popped)).ignore();  // pops our push; nothing to do if it fails
  }

  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  Status status_;
  bool pushed_ = false;
};

// 13 ns for the pair. Always entered, since another thread may begin a capture at any moment.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { exchange(); }

  ~RelaxedCapture() { exchange(); }

  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() {
    Status(driver_.exchange_capture_mode(&mode_)).ignore();
  }  // cannot fail once initialised

  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace custash
