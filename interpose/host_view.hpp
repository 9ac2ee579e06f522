// SPDX-License-Identifier: MIT
// What entry_points.def says of a submission: whether the host could see its effect, and which
// addresses it touches. A copy is visible where its target is host memory, or may be: an address of
// the unified space that is not a block of ours. Pure but for the look-up of the address.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "allocator/allocator.hpp"
#include "interpose/captures.hpp"

namespace custash::views {

inline constexpr HostView Hidden = HostView::Hidden;
inline constexpr HostView Visible = HostView::Visible;

inline HostView to(Allocator& core, CUdeviceptr target) {
  return core.find(target, nullptr) == Ownership::Live ? Hidden : Visible;
}

// Long lists are not searched: they count as visible.
inline HostView to_all(Allocator& core, const CUdeviceptr* targets, std::size_t count) {
  constexpr std::size_t kSearched = 16;
  if (targets == nullptr || count > kSearched) return Visible;
  const auto hidden = [&core](CUdeviceptr target) { return to(core, target) == Hidden; };
  return std::all_of(targets, targets + count, hidden) ? Hidden : Visible;
}

// CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER alike.
template <typename Copy>
HostView of_copy(Allocator& core, const Copy* copy) {
  if (copy == nullptr) return Hidden;  // the driver refuses it
  if (copy->dstMemoryType == CU_MEMORYTYPE_HOST) return Visible;
  return copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED ? to(core, copy->dstDevice) : Hidden;
}

inline HostView of_graphs() {
  return captures::host_visible_node_added() ? Visible : HostView::Graph;
}

inline Address first_of(const CUdeviceptr* list, std::size_t count) {
  return list == nullptr || count == 0 ? 0 : list[0];
}

inline bool is_address(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

template <typename Copy>
Address target(const Copy* copy) {
  return copy != nullptr && is_address(copy->dstMemoryType) ? copy->dstDevice : 0;
}

template <typename Copy>
Address source(const Copy* copy) {
  return copy != nullptr && is_address(copy->srcMemoryType) ? copy->srcDevice : 0;
}

inline CUstream stream_of(const CUlaunchConfig* config) {
  return config == nullptr ? nullptr : config->hStream;
}

}  // namespace custash::views
