// SPDX-License-Identifier: MIT
// Plan: which driver call is to fail. Only calls of ours count, not those of the program: arm()
// before what is ours, disarm() after it. One thread.
#pragma once

#include "tests/sim/sim.hpp"

namespace custash::property {

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

}  // namespace custash::property
