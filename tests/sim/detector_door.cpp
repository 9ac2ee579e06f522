// SPDX-License-Identifier: MIT
// Only in libcuda.so.1: the race detector as whole programs find it (detector_abi.h).
#include "tests/sim/detector_abi.h"
#include "tests/sim/process.hpp"
#include "tests/sim/race_detector.hpp"
#include "tests/sim/sim.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

// Never destroyed: programs free memory from static destructors.
RaceDetector* detector = nullptr;

Address address(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

void allocated(const void* memory, size_t bytes, int ordered, CUstream stream) {
  if (ordered != 0) return detector->on_alloc(address(memory), bytes, this_thread(), stream);
  detector->on_alloc(address(memory), bytes, this_thread());
}

void freed(const void* memory, int ordered, CUstream stream) {
  if (ordered != 0)
    detector->on_free(address(memory), this_thread(), stream);
  else
    detector->on_free(address(memory), this_thread());
}

void recorded(const void* memory, CUstream stream) {
  detector->on_record_stream(address(memory), stream);
}

void touched_by_host(const void* memory, size_t bytes, int write) {
  detector->on_host_access(this_thread(), address(memory), bytes, write != 0);
}

unsigned thread() {
  return this_thread();
}

void thread_sync(unsigned from, unsigned to) {
  detector->thread_sync(from, to);
}

size_t count(const char* kind) {
  const std::vector<Report> reports = detector->reports();
  if (kind == nullptr) return reports.size();
  return static_cast<size_t>(
      std::count_if(reports.begin(), reports.end(), [&](const Report& r) {
        return name_of(r.kind) == std::string_view(kind);
      }));
}

const char* text() {
  thread_local std::string said;
  said = detector->text();
  return said.c_str();
}

void clear() {
  detector->clear();
}

size_t device_bytes(int device) {
  return used(device);
}

constexpr custash_sim_detector_calls kCalls = {allocated,
                                               freed,
                                               recorded,
                                               touched_by_host,
                                               thread,
                                               thread_sync,
                                               count,
                                               text,
                                               clear,
                                               device_bytes};

}  // namespace

void start_detector() {
  detector = new RaceDetector;
  set_observer(detector);
}

}  // namespace custash::sim

extern "C" __attribute__((visibility("default"))) const custash_sim_detector_calls*
custash_sim_detector() {
  return custash::sim::detector == nullptr ? nullptr : &custash::sim::kCalls;
}
