// SPDX-License-Identifier: MIT
#include "tests/harness/detector.hpp"

#include "tests/sim/detector_abi.h"

#include <dlfcn.h>

namespace custash::harness::detector {
namespace {

const custash_sim_detector_calls* find() {
  // The runtime loads the driver with its first call, out of the global scope.
  (void)device_count();
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  auto* get =
      reinterpret_cast<decltype(&custash_sim_detector)>(dlsym(driver, "custash_sim_detector"));
  return get == nullptr ? nullptr : get();
}

const custash_sim_detector_calls* calls() {
  static const custash_sim_detector_calls* const found = find();
  return found;
}

}  // namespace

bool on() {
  return calls() != nullptr;
}

void allocated(const void* memory, std::size_t bytes, const Stream* stream) {
  if (!on()) return;
  if (stream != nullptr) use_device(stream->device());
  calls()->allocated(memory, bytes, stream != nullptr, stream ? stream->get() : nullptr);
}

void freed(const void* memory, const Stream* stream) {
  if (!on()) return;
  if (stream != nullptr) use_device(stream->device());
  calls()->freed(memory, stream != nullptr, stream ? stream->get() : nullptr);
}

void recorded(const void* memory, const Stream& stream) {
  if (on()) calls()->recorded(memory, stream.get());
}

void touched_by_host(const void* memory, std::size_t bytes, Touch touch) {
  if (on()) calls()->touched_by_host(memory, bytes, touch == Touch::Write);
}

unsigned this_thread() {
  return on() ? calls()->thread() : 0;
}

void thread_sync(unsigned from, unsigned to) {
  if (on()) calls()->thread_sync(from, to);
}

std::size_t reports() {
  return on() ? calls()->count(nullptr) : 0;
}

std::size_t reports(const std::string& kind) {
  return on() ? calls()->count(kind.c_str()) : 0;
}

std::string text() {
  return on() ? calls()->text() : "";
}

void clear() {
  if (on()) calls()->clear();
}

std::size_t device_bytes(int device) {
  return on() ? calls()->device_bytes(device) : 0;
}

}  // namespace custash::harness::detector
