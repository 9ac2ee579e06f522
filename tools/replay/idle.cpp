// SPDX-License-Identifier: MIT
#include "allocator/sleep/deep_trim.hpp"
#include "tools/replay/questions.hpp"

namespace custash::replay {
namespace {

// How many events there are up to the first moment with the most bytes in use.
std::size_t events_to_peak(const Trace& trace) {
  Bytes in_use = 0;
  std::size_t done = 0;
  for (const Event& event : trace.events) {
    ++done;
    if (event.kind == Kind::Alloc) in_use += event.bytes;
    if (event.kind == Kind::Free) in_use -= event.bytes;
    if (in_use == trace.peak) break;
  }
  return done;
}

IdleMoment idle_after(std::size_t events,
                      const Trace& trace,
                      const Config& config,
                      const DeviceOptions& options) {
  const auto device = make_simulated_device(options);
  IdleMoment moment{.events = events};
  RunOptions run{.stop_after = events};
  run.when_stopped = [&](Allocator& allocator, Bytes in_use, const Meter& meter) {
    moment.in_use = in_use;
    moment.held = meter.held();
    allocator.empty_all_caches();
    moment.trimmed = meter.held();
    const Nanoseconds begin = device->driver().now();
    moment.sound = DeepTrim(allocator).go({}).done && allocator.validate();
    moment.time = device->driver().now() - begin;
    moment.deep = meter.held();
  };
  moment.sound &= replay(trace, *device, Subject::Custash, config, run).sound && moment.sound;
  return moment;
}

}  // namespace

std::vector<IdleMoment> idle_moments(const Trace& trace,
                                     const Config& config,
                                     const DeviceOptions& device,
                                     std::size_t moments) {
  const std::size_t peak = events_to_peak(trace);
  const std::size_t rest = trace.events.size() - peak;
  std::vector<IdleMoment> all;
  for (std::size_t i = 0; i <= moments; ++i) {
    const std::size_t events = peak + (moments == 0 ? 0 : rest * i / moments);
    if (!all.empty() && all.back().events == events) continue;
    all.push_back(idle_after(events, trace, config, device));
  }
  return all;
}

}  // namespace custash::replay
