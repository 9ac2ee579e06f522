// SPDX-License-Identifier: MIT
// Only in libcuda.so.1: failures on demand as whole programs ask for them (fault_abi.h).
#include "tests/sim/fault_abi.h"
#include "tests/sim/sim.hpp"

namespace custash::sim {
namespace {

constexpr custash_sim_fault_calls kFaultCalls{
    [](unsigned long long k, int code, int persistent) {
      fail_call(k, static_cast<CUresult>(code), persistent != 0);
    },
    [] { clear_failures(); },
    [] { return static_cast<unsigned long long>(failures_given()); },
    [](int device) { return static_cast<std::size_t>(used(device)); },
    [] { return faults().size(); },
};

}  // namespace
}  // namespace custash::sim

extern "C" __attribute__((visibility("default"))) const custash_sim_fault_calls*
custash_sim_faults() {
  return &custash::sim::kFaultCalls;
}
