// SPDX-License-Identifier: MIT
#include "tests/harness/stream.hpp"

#include <map>

namespace custash::harness {
namespace {

std::map<int, Stream>& chosen() {
  thread_local std::map<int, Stream> streams;
  return streams;
}

void choose(const Stream& stream) {
  chosen().insert_or_assign(stream.device(), stream);
}

}  // namespace

// ---- events

void Event::record(const Stream& stream) {
  use_device(stream.device());
  if (handle_ == nullptr || device_ != stream.device()) {
    const unsigned flags = timing_ == Timing::On ? cudaEventDefault : cudaEventDisableTiming;
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, flags), "cudaEventCreate");
    handle_ = {made, [](cudaEvent_t event) { (void)cudaEventDestroy(event); }};
    device_ = stream.device();
  }
  check(cudaEventRecord(get(), stream.get()), "cudaEventRecord");
}

void Event::record() {
  record(Stream::current());
}

void Event::wait(const Stream& stream) {
  if (handle_ == nullptr) return;
  use_device(stream.device());
  check(cudaStreamWaitEvent(stream.get(), get(), 0), "cudaStreamWaitEvent");
}

void Event::synchronize() {
  if (handle_ != nullptr) check(cudaEventSynchronize(get()), "cudaEventSynchronize");
}

bool Event::query() const {
  if (handle_ == nullptr) return true;
  const cudaError_t code = cudaEventQuery(get());
  if (code != cudaErrorNotReady) check(code, "cudaEventQuery");
  return code == cudaSuccess;
}

double Event::elapsed_ms(const Event& end) const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, get(), end.get()), "cudaEventElapsedTime");
  return ms;
}

// ---- streams

Stream Stream::make(int device) {
  use_device(device);
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
  return {device, {made, [](cudaStream_t stream) { (void)cudaStreamDestroy(stream); }}};
}

Stream Stream::default_of(int device) {
  return {device, nullptr};
}

Stream Stream::current(int device) {
  const auto found = chosen().find(device);
  return found == chosen().end() ? default_of(device) : found->second;
}

void Stream::synchronize() const {
  use_device(device_);
  check(cudaStreamSynchronize(get()), "cudaStreamSynchronize");
}

bool Stream::query() const {
  use_device(device_);
  const cudaError_t code = cudaStreamQuery(get());
  if (code != cudaErrorNotReady) check(code, "cudaStreamQuery");
  return code == cudaSuccess;
}

void Stream::wait_stream(const Stream& other) const {
  if (*this == other) return;
  Event event = other.record_event();
  event.wait(*this);
}

Event Stream::record_event() const {
  Event event;
  event.record(*this);
  return event;
}

StreamGuard::StreamGuard(const Stream& stream)
    : device_(stream.device()), outer_(Stream::current(stream.device())) {
  choose(stream);
}

StreamGuard::~StreamGuard() {
  choose(outer_);
}

}  // namespace custash::harness
