// SPDX-License-Identifier: MIT
#include "tools/command/compare/sampler.hpp"

#include "tools/command/compare/child.hpp"

#include <algorithm>
#include <chrono>

namespace custash::compare {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};

std::optional<Bytes> used_by_all(const Nvml& nvml) {
  Bytes sum = 0;
  for (std::size_t i = 0; i < nvml.devices(); ++i) {
    const std::optional<Bytes> used = nvml.used(i);
    if (!used) return std::nullopt;
    sum += *used;
  }
  return sum;
}

}  // namespace

Sampler::Sampler(const Nvml* nvml) : nvml_(nvml) {
  if (nvml_ != nullptr) peak_.idle = used_by_all(*nvml_);
  if (peak_.idle) peak_.above_idle = 0;
}

Sampler::~Sampler() {
  (void)stop();
}

void Sampler::start(pid_t program) {
  program_ = program;
  if (nvml_ != nullptr) thread_ = std::thread([this] { watch(); });
}

MemoryPeak Sampler::stop() {
  ended_ = true;
  if (thread_.joinable()) thread_.join();
  if (hidden_) peak_.of_processes.reset();
  return peak_;
}

void Sampler::watch() {
  while (!ended_) {
    sample();
    std::this_thread::sleep_for(kPeriod);
  }
}

void Sampler::sample() {
  Bytes ours = 0;
  bool any = false;
  for (std::size_t i = 0; i < nvml_->devices(); ++i) {
    for (const DeviceProcess& each : nvml_->processes(i)) {
      if (!descends_from(each.process, program_)) continue;
      any = true;
      hidden_ = hidden_ || !each.used;
      ours += each.used.value_or(0);
    }
  }
  if (any) peak_.of_processes = std::max(peak_.of_processes.value_or(0), ours);
  const std::optional<Bytes> all = used_by_all(*nvml_);
  if (all && peak_.idle && *all > *peak_.idle)
    peak_.above_idle = std::max(*peak_.above_idle, *all - *peak_.idle);
}

}  // namespace custash::compare
