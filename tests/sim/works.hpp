// SPDX-License-Identifier: MIT
// What a kernel, a copy and a fill do: calls and nodes of graphs make the same of it.
#pragma once

#include "tests/sim/entry.hpp"

namespace custash::sim {

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
};

// launch.cpp
CUresult kernel_work(const Frame& frame,
                     CUfunction fn,
                     const LaunchShape& shape,
                     void** params,
                     void** extra,
                     Work* out);
Work described_work(const World& world, Kernel kernel);

// copy.cpp, fill.cpp: in that context.
CUresult copy_work(World& world, const Context& by, const CUDA_MEMCPY3D* what, Work* out);
CUresult fill_work(World& world,
                   const Context& by,
                   const CUDA_MEMSET_NODE_PARAMS& what,
                   Work* out);

}  // namespace custash::sim
