// SPDX-License-Identifier: MIT
// Plan: which driver call is to fail. Only calls of ours count, not those of the program: arm()
// before what is ours, disarm() after it. One thread.
#pragma once

#include "tests/sim/sim.hpp"

#include <cstdlib>
#include <vector>

namespace custash {

struct Plan {
  std::uint64_t at = 0;  // 0: none
  CUresult code = CUDA_SUCCESS;
  bool persistent = false;
  std::uint64_t made = 0;  // calls of ours so far

  void arm() {
    start = sim::calls_made();
    if (at == 0) return;
    if (at > made) sim::fail_call(at - made, code, persistent);
    if (at <= made && persistent) sim::fail_call(1, code, true);
  }

  void disarm() {
    sim::clear_failures();
    made += sim::calls_made() - start;
  }

  std::uint64_t start = 0;
};

// The plans for a scenario of `calls` calls. A call fails in four ways: with either code, once
// or from then on. Each call fails in all four; with CUSTASH_FAULT_STRIDE=N each way takes
// every Nth call and begins at another one, so that no call fails in two ways.
inline std::vector<Plan> plans_of(std::uint64_t calls) {
  const char* const text = std::getenv("CUSTASH_FAULT_STRIDE");
  const std::uint64_t asked = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  const std::uint64_t stride = asked == 0 ? 1 : asked;
  std::vector<Plan> plans;
  std::uint64_t way = 0;
  for (const bool persistent : {false, true}) {
    for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      for (std::uint64_t at = 1 + way * stride / 4; at <= calls; at += stride)
        plans.push_back({.at = at, .code = code, .persistent = persistent});
      ++way;
    }
  }
  return plans;
}

}  // namespace custash
