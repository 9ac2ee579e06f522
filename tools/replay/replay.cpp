// SPDX-License-Identifier: MIT
#include "tools/replay/replay.hpp"

#include "tools/replay/subjects.hpp"

#include <algorithm>
#include <type_traits>

namespace custash::replay {
namespace {

constexpr std::size_t kProgressStep = 512;

// `holder` knows what is held, and which calls were made.
template <typename Through, typename Holder>
Outcome run(const Trace& trace,
            Device& device,
            Through& subject,
            const Holder& holder,
            const RunOptions& options) {
  const Nanoseconds begin = device.driver().now();
  Outcome outcome;
  std::vector<Address> blocks(trace.slots);
  Bytes in_use = 0;
  if (options.keep_samples) outcome.samples.reserve(trace.events.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const Nanoseconds before = trace.events[i == 0 ? 0 : i - 1].time;
    if (event.time > before) Meter::pass_time(event.time - before);
    Address& block = blocks[event.slot];
    if (event.kind == Kind::Alloc) {
      if (subject.allocate(event, &block)) {
        in_use += event.bytes;
        outcome.sound &= subject.submit(event, block);
      } else {
        block = 0;
        outcome.fits = false;
        if (options.stop_at_refusal) break;
      }
      outcome.peak_in_use = std::max(outcome.peak_in_use, in_use);
    } else if (event.kind == Kind::Free && block != 0) {
      outcome.sound &= subject.free(event, block);
      in_use -= event.bytes;
      block = 0;
    }
    if (options.keep_samples) outcome.samples.push_back({in_use, holder.held()});
    if (options.progress && i % kProgressStep == 0) options.progress(i);
    if (i + 1 < options.stop_after) continue;
    outcome.sound &= device.finish();
    if constexpr (std::is_same_v<Holder, Meter>) {
      if (options.when_stopped) options.when_stopped(subject.allocator, in_use, holder);
    }
    break;
  }
  outcome.sound &= device.finish();
  outcome.elapsed = device.driver().now() - begin;
  outcome.peak_held = holder.peak();
  outcome.calls = holder.rows();
  if constexpr (std::is_same_v<Holder, Meter>) {
    outcome.moves = holder.moves();
    outcome.moved_bytes = holder.moved_bytes();
    outcome.aliases = holder.aliases();
  }
  // A real device serves the next replay too.
  for (const Address block : blocks)
    if (block != 0) outcome.sound &= subject.free({}, block);
  return outcome;
}

}  // namespace

CallRow Outcome::all_calls() const {
  CallRow sum;
  for (const CallRow& row : calls)
    sum = {"", sum.calls + row.calls, sum.time + row.time};
  return sum;
}

CallRow Outcome::memory_calls() const {
  CallRow sum;
  for (const CallRow& row : calls)
    if (row.symbol.rfind("cuMem", 0) == 0)
      sum = {"", sum.calls + row.calls, sum.time + row.time};
  return sum;
}

double Outcome::utilisation() const {
  if (peak_in_use == 0) return 1;
  return static_cast<double>(peak_held) / static_cast<double>(peak_in_use);
}

Outcome replay(const Trace& trace,
               Device& device,
               Subject subject,
               const Config& config,
               const RunOptions& options) {
  if (subject == Subject::Pool) {
    ThroughPool through(device);
    return run(trace, device, through, through, options);
  }
  const Meter meter(device.driver());
  if (subject == Subject::Bare) {
    ThroughDriver through(meter, device);
    return run(trace, device, through, through, options);
  }
  // Kept where a leak checker sees it.
  static auto& all = *new std::vector<Allocator*>;
  Allocator& allocator = *all.emplace_back(new Allocator(Meter::driver(), config));
  ThroughCustash through{allocator, device};
  Outcome outcome = run(trace, device, through, meter, options);
  const DeviceStats stats = allocator.stats(0);
  outcome.retries = stats.num_alloc_retries;
  outcome.ooms = stats.num_ooms;
  allocator.empty_all_caches();
  outcome.sound &= allocator.validate();
  return outcome;
}

}  // namespace custash::replay
