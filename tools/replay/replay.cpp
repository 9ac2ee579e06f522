// SPDX-License-Identifier: MIT
#include "tools/replay/replay.hpp"

#include "allocator/allocator.hpp"

#include <algorithm>

namespace custash::replay {
namespace {

constexpr std::size_t kProgressStep = 512;

// As a program under custash meets it; the doors are left out, the submissions are not.
struct ThroughCustash {
  Allocator& allocator;
  Device& device;

  bool allocate(const Event& event, Address* out) {
    if (event.stream == kNoStream)
      return allocator.allocate(device.context(), event.bytes, out).ok();
    return allocator
        .allocate_on(
            device.context(), device.stream(event.stream), NullStream::Legacy, event.bytes, out)
        .ok();
  }

  bool free(const Event& event, Address address) {
    const auto status =
        event.stream == kNoStream
            ? allocator.free(address)
            : allocator.free_on(address, device.stream(event.stream), NullStream::Legacy);
    return status.has_value() && status->ok();
  }

  bool submit(const Event& event, Address address) {
    const CUstream stream = device.stream(event.stream);
    Submission submission(allocator, stream, NullStream::Legacy, HostView::Hidden);
    const CUresult result = device.submit(stream, address, event.bytes);
    submission.done(result);
    return result == CUDA_SUCCESS;
  }
};

struct ThroughDriver {
  const Driver& driver;
  Device& device;

  bool allocate(const Event& event, Address* out) {
    CUdeviceptr address = 0;
    const bool ok = driver.mem_alloc(&address, event.bytes) == CUDA_SUCCESS;
    *out = address;
    return ok;
  }

  bool free(const Event&, Address address) { return driver.mem_free(address) == CUDA_SUCCESS; }

  bool submit(const Event& event, Address address) {
    return device.submit(device.stream(event.stream), address, event.bytes) == CUDA_SUCCESS;
  }
};

template <typename Subject>
Outcome run(const Trace& trace,
            Device& device,
            Subject subject,
            Meter& meter,
            const RunOptions& options) {
  Outcome outcome;
  std::vector<Address> blocks(trace.slots);
  Bytes in_use = 0;
  if (options.keep_samples) outcome.samples.reserve(trace.events.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
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
    if (options.keep_samples) outcome.samples.push_back({in_use, meter.held()});
    if (options.progress && i % kProgressStep == 0) options.progress(i);
  }
  outcome.peak_held = meter.peak();
  outcome.moves = meter.moves();
  outcome.moved_bytes = meter.moved_bytes();
  outcome.calls = meter.rows();
  outcome.sound &= device.finish();
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

Outcome run_custash(const Trace& trace,
                    Device& device,
                    const Config& config,
                    const RunOptions& options) {
  Meter meter(device.driver());
  // Kept where a leak checker sees it.
  static auto& all = *new std::vector<Allocator*>;
  Allocator& allocator = *all.emplace_back(new Allocator(Meter::driver(), config));
  Outcome outcome = run(trace, device, ThroughCustash{allocator, device}, meter, options);
  const DeviceStats stats = allocator.stats(0);
  outcome.retries = stats.num_alloc_retries;
  outcome.ooms = stats.num_ooms;
  outcome.sound &= allocator.validate();
  return outcome;
}

Outcome run_bare(const Trace& trace, Device& device, const RunOptions& options) {
  Meter meter(device.driver());
  return run(trace, device, ThroughDriver{Meter::driver(), device}, meter, options);
}

}  // namespace custash::replay
