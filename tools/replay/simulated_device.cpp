// SPDX-License-Identifier: MIT
// The simulated driver as a replay's device. The host runs ahead of it by as many launches as a
// real driver queues, so that fences of freed memory are as late as on a busy device.
#include "tests/sim/sim.hpp"
#include "tools/replay/device.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace custash::replay {
namespace {

sim::Options sim_options(const DeviceOptions& options) {
  sim::Options made;
  made.devices = 1;
  made.device_memory = options.memory;
  made.log = false;
  made.advance = sim::Advance::Timed;
  return made;
}

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(const DeviceOptions& options)
      : sim_(sim_options(options)), in_flight_(options.in_flight) {}

  const Driver& driver() const override { return sim_.driver(); }

  CUcontext context() const override { return sim_.context(); }

  void* find(const char* symbol) const override { return sim::resolve(symbol); }

  Bytes used() const override { return sim::used(0); }

  CUstream stream(std::uint32_t number) override {
    if (number == 0) return nullptr;
    using Create = CUresult(CUstream*, unsigned);
    auto* create = reinterpret_cast<Create*>(sim::resolve("cuStreamCreate"));
    while (streams_.size() < number)
      if (create(&streams_.emplace_back(), CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return nullptr;
    return streams_[number - 1];
  }

  CUresult submit(CUstream stream, Address address, Bytes bytes) override {
    sim::Kernel kernel;
    kernel.accesses.push_back({address, std::min(bytes, kTouched), true});
    const CUresult result = sim::launch(stream, std::move(kernel));
    if (result != CUDA_SUCCESS) return result;
    launched_.push_back(sim::last_op(stream));
    while (launched_.size() > in_flight_) {
      while (!sim::complete(launched_.front()))
        sim::advance_clock(sim::Options{}.default_kernel);
      launched_.pop_front();
    }
    return result;
  }

  bool finish() override {
    sim::run_all();
    return sim::faults().empty() && !sim::hung();
  }

 private:
  sim::Sim sim_;
  unsigned in_flight_;
  std::vector<CUstream> streams_;
  std::deque<sim::OpId> launched_;
};

}  // namespace

std::unique_ptr<Device> make_simulated_device(const DeviceOptions& options) {
  return std::make_unique<SimulatedDevice>(options);
}

}  // namespace custash::replay
