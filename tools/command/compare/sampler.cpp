// SPDX-License-Identifier: MIT
#include "tools/command/compare/sampler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

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

struct Kin {
  pid_t parent = 0;
  pid_t group = 0;
};

// Zeros where there is no such process.
Kin kin_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  Kin kin;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %*c %d %d", &kin.parent, &kin.group) != 2)
    return {};
  return kin;
}

}  // namespace

// The program leads a group of its own, to which most of its processes belong even when their
// parent has ended.
bool descends_from(pid_t process, pid_t ancestor) {
  constexpr int kDeepest = 64;
  for (int i = 0; i < kDeepest && process > 1; ++i) {
    const Kin kin = kin_of(process);
    if (process == ancestor || kin.group == ancestor) return true;
    process = kin.parent;
  }
  return false;
}

Sampler::Sampler(const Nvml* nvml) : nvml_(nvml) {
  if (nvml_ != nullptr) peak_.above_idle = used_by_all(*nvml_);
  peak_.idle = peak_.above_idle.value_or(0);
  if (peak_.above_idle) peak_.above_idle = 0;
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
  if (all && peak_.above_idle && *all > peak_.idle)
    peak_.above_idle = std::max(*peak_.above_idle, *all - peak_.idle);
}

}  // namespace custash::compare
