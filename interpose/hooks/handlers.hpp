// SPDX-License-Identifier: MIT
// The handlers: one function for each entry of entry_points.def that is more than a submission,
// declared from its row. A row `MEMORY(cuX, forms, x, (int a), (a))` declares
//
//   CUresult x(Real<int> real, NullStream null, int a);
//
// `real` is the driver's function. It is never null, and a handler calls it at most twice. A
// handler passes a pointer that is not custash's to it unchanged. It holds no lock across the
// call and may throw only before it: the hook then returns CUDA's out-of-memory.
#pragma once

#include "interpose/process/process.hpp"

#include <cstddef>

#include <cuda.h>

namespace custash::handlers {

template <typename... Params>
using Real = CUresult (*)(Params...);

using Count = std::size_t;

#define AND_PARAMS(...) __VA_OPT__(, ) __VA_ARGS__
#define HANDLED(symbol, forms, role, handler, params, args) \
  CUresult handler(CUresult(*real) params, NullStream null AND_PARAMS params);
#include "interpose/real/entry_points.def"
#undef AND_PARAMS

// No allocation is ever here. Asked about it, the driver gives its exact answer for an unknown
// pointer.
inline constexpr CUdeviceptr kNowhere = 8;

// The block of custash's that holds the address.
inline Ownership find_block(CUdeviceptr address, BlockInfo* info) {
  Allocator* const core = address == 0 ? nullptr : process::core();
  return core == nullptr ? Ownership::Foreign : core->find(address, info);
}

// Notes of the rows NOTED. by_driver(): the driver's number for the program's. leaves(): the
// same, of memory that leaves this process's addresses. may_bind(): not memory of custash's,
// which others may have next. It has no handle to be bound by.
CUresult by_driver(CUmemGenericAllocationHandle* handle);
CUresult leaves(CUmemGenericAllocationHandle* handle);
CUresult leaves_at(CUdeviceptr address, Count bytes);
CUresult may_bind(CUdeviceptr address, Count bytes);

inline CUresult leaves_at(const void* address, Count bytes) {
  return leaves_at(reinterpret_cast<CUdeviceptr>(address), bytes);
}

}  // namespace custash::handlers

// Nodes that a program adds to a graph by hand, or changes: the rows NODE of entry_points.def
// call these before the driver. They note whether the host could see the effect of a launch of
// the graph without a call that synchronises, and memory of another device that a node touches.
// The driver answers null pointers.
namespace custash::graph_nodes {

// Before each of the others: the node may become a part of a capture that goes on.
void note_change();
void note_copy(const CUDA_MEMCPY3D* copy, CUcontext context);
void note_fill(const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context);
void note_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1* node);
void note_kernel(const void* node);  // v2 and v3
void note_visible();                 // an unknown effect, which the host may see

}  // namespace custash::graph_nodes
