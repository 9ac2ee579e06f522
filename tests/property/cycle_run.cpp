// SPDX-License-Identifier: MIT
#include "tests/property/cycle.hpp"
#include "tests/property/door.hpp"
#include "tests/property/turns.hpp"
#include "tests/sim/sim.hpp"

#include <algorithm>
#include <deque>

namespace custash::property {
namespace {

constexpr std::string_view kMemoryCalls[] = {"cuMemCreate",
                                             "cuMemMap",
                                             "cuMemSetAccess",
                                             "cuMemUnmap",
                                             "cuMemRelease",
                                             "cuMemAddressReserve",
                                             "cuMemAddressFree",
                                             "cuMemAlloc_v2",
                                             "cuMemFree_v2"};

std::uint64_t memory_calls() {
  std::uint64_t sum = 0;
  for (const std::string_view symbol : kMemoryCalls)
    sum += sim::count(symbol);
  return sum;
}

sim::Options options_of(const Cycle& cycle) {
  sim::Options options;
  options.devices = 1;
  options.log = false;
  options.advance = sim::Advance::Timed;
  options.default_kernel = cycle.kernel;
  return options;
}

class Runner {
 public:
  explicit Runner(const Cycle& cycle)
      : cycle_(cycle),
        sim_(options_of(cycle)),
        door_(cached_door({.config = config(), .fast = true})),
        turns_(cycle.threads),
        blocks_(static_cast<std::size_t>(cycle.slots)) {
    for (int i = 0; i < cycle.streams; ++i)
      check(cuStreamCreate(&streams_.emplace_back(), CU_STREAM_NON_BLOCKING));
  }

  CycleRun run(int cycles) {
    for (const Step& step : cycle_.once)
      turn(step);
    for (int i = 0; i < cycles; ++i) {
      const std::uint64_t before = memory_calls();
      for (const Step& step : cycle_.commands)
        turn(step);
      out_.calls.push_back(memory_calls() - before);
    }
    sim::run_all();
    return out_;
  }

 private:
  static Config config() {
    Config config;
    config.backing = Backing::Vmm;
    config.decay = 0;
    return config;
  }

  void check(CUresult result) { out_.failed |= result != CUDA_SUCCESS; }

  void turn(const Step& step) {
    turns_.on(step.thread, [&] {
      check(cuCtxSetCurrent(sim_.context()));
      take(step);
    });
    out_.held = std::max(out_.held, sim::used(0));
  }

  CUstream stream(const Step& step) const {
    return step.stream == 0 ? nullptr : streams_[static_cast<std::size_t>(step.stream - 1)];
  }

  void take(const Step& step) {
    Address& block = blocks_[static_cast<std::size_t>(step.slot)];
    switch (step.kind) {
      case StepKind::Allocate:
        in_use_ += step.bytes;
        out_.in_use = std::max(out_.in_use, in_use_);
        return check(step.stream == 0 ? door_->malloc(sim_.context(), step.bytes, &block)
                                      : door_->malloc_async(
                                            sim_.context(), stream(step), step.bytes, &block));
      case StepKind::Free:
        in_use_ -= step.bytes;
        return check(step.stream == 0 ? door_->free(block)
                                      : door_->free_async(block, stream(step)));
      case StepKind::Launch:
        return launch(stream(step), block);
      case StepKind::Synchronize:
        return check(cuCtxSynchronize());
    }
  }

  void launch(CUstream stream, Address block) {
    check(door_->submit(stream, {}, block, 0, [&] {
      sim::Kernel kernel;
      kernel.accesses.push_back({block, 512, true});
      return sim::launch(stream, std::move(kernel));
    }));
    launched_.push_back(sim::last_op(stream));
    while (launched_.size() > cycle_.in_flight) {
      while (!sim::complete(launched_.front()))
        sim::advance_clock(cycle_.kernel);
      launched_.pop_front();
    }
  }

  const Cycle& cycle_;
  sim::Sim sim_;
  std::unique_ptr<Door> door_;
  Turns turns_;
  std::vector<Address> blocks_;
  std::vector<CUstream> streams_;
  std::deque<sim::OpId> launched_;
  Bytes in_use_ = 0;
  CycleRun out_;
};

}  // namespace

CycleRun run_cycle(const Cycle& cycle, int cycles) {
  return Runner(cycle).run(cycles);
}

}  // namespace custash::property
