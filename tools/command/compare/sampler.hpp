// SPDX-License-Identifier: MIT
// Sampler: watches device memory while a run lasts, in a thread of its own. A peak between two
// samples is missed.
#pragma once

#include "tools/command/compare/result.hpp"
#include "tools/command/nvml.hpp"

#include <atomic>
#include <thread>

namespace custash::compare {

class Sampler {
 public:
  // Reads the idle level. `nvml` may be null: then nothing is known.
  explicit Sampler(const Nvml* nvml);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Once; after the fork, since a thread must not be under way then.
  void start(pid_t program);

  MemoryPeak stop();

 private:
  void watch();
  void sample();

  const Nvml* const nvml_;
  pid_t program_ = 0;
  MemoryPeak peak_;
  bool hidden_ = false;  // a process of the program whose memory NVML does not report
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace custash::compare
