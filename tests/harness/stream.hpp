// SPDX-License-Identifier: MIT
// Streams and events. A Stream is a handle: copies are the same stream, which goes with the
// last. Side streams do not wait for the default stream, nor it for them, as PyTorch's.
#pragma once

#include "tests/harness/device.hpp"

#include <memory>

namespace custash::harness {

class Stream;

class Event {
 public:
  enum class Timing { Off, On };

  explicit Event(Timing timing = Timing::Off) : timing_(timing) {}

  void record(const Stream& stream);
  void record();  // on the current stream
  void wait(
      const Stream& stream);  // makes the stream wait; nothing where it was never recorded
  void synchronize();
  [[nodiscard]] bool query() const;
  [[nodiscard]] double elapsed_ms(const Event& end) const;

  [[nodiscard]] cudaEvent_t get() const { return handle_.get(); }

 private:
  Timing timing_;
  int device_ = 0;
  std::shared_ptr<CUevent_st> handle_;  // made at the first record, on the stream's device
};

class Stream {
 public:
  static Stream make(int device = current_device());
  static Stream default_of(int device = current_device());
  static Stream current(int device = current_device());

  [[nodiscard]] int device() const { return device_; }

  [[nodiscard]] cudaStream_t get() const { return handle_.get(); }

  void synchronize() const;
  [[nodiscard]] bool query() const;  // whether all its work is done

  void wait_event(Event& event) const { event.wait(*this); }

  void wait_stream(const Stream& other) const;
  [[nodiscard]] Event record_event() const;

  bool operator==(const Stream& other) const {
    return device_ == other.device_ && get() == other.get();
  }

 private:
  Stream(int device, std::shared_ptr<CUstream_st> handle)
      : device_(device), handle_(std::move(handle)) {}

  int device_;
  std::shared_ptr<CUstream_st> handle_;  // null: the default stream
};

// Sets the current stream of the stream's device, and that device, for a scope.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceGuard device_;
  Stream outer_;
};

}  // namespace custash::harness
