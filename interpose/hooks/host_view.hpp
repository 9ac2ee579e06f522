// SPDX-License-Identifier: MIT
// The words of entry_points.def about a submission: whether the host could see its effect, and
// which addresses it touches. A copy is visible where its target is, or may be, host memory: a
// unified address that is neither a block of ours nor, by the driver's answer, device memory.
// No state.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/submission.hpp"
#include "interpose/process/captures.hpp"

#include <cstddef>

#include <cuda.h>

namespace custash::views {

using SubmissionKind::Hidden;
using SubmissionKind::Visible;

SubmissionKind to(Allocator& core, CUdeviceptr target);

// For a copy out of `source`, which the host may overwrite after a free. Visible where option
// free: makes frees wait for such copies.
SubmissionKind from(Allocator& core, const void* source);

inline SubmissionKind between(Allocator& core, CUdeviceptr target, CUdeviceptr source) {
  const bool is_seen = from(core, reinterpret_cast<const void*>(source)) == Visible;
  return is_seen ? Visible : to(core, target);
}

// Pinned, registered or managed memory. Pageable memory is not, even where kernels reach it.
bool is_shared_with_host(CUdeviceptr address);

// For a batch of copies, which may touch memory of any device. Long batches are not searched:
// they count as visible. The driver refuses a batch on the legacy stream, so a null stream is
// the thread's own.
SubmissionKind of_batch(Allocator& core,
                        CUstream stream,
                        const CUdeviceptr* targets,
                        const CUdeviceptr* sources,
                        std::size_t count);
SubmissionKind of_batch_3d(Allocator& core,
                           CUstream stream,
                           const void* list,
                           std::size_t count);

// How far from its base a copy begins. The base alone may lie outside the memory.
// CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER alike, as everything below.
template <typename Copy>
Bytes target_offset(const Copy& copy) {
  std::size_t row = copy.dstY;
  if constexpr (requires { copy.dstZ; }) row += copy.dstZ * copy.dstHeight;
  return row * copy.dstPitch + copy.dstXInBytes;
}

template <typename Copy>
Bytes source_offset(const Copy& copy) {
  std::size_t row = copy.srcY;
  if constexpr (requires { copy.srcZ; }) row += copy.srcZ * copy.srcHeight;
  return row * copy.srcPitch + copy.srcXInBytes;
}

template <typename Copy>
SubmissionKind of_copy(Allocator& core, const Copy* copy) {
  if (copy == nullptr) return Hidden;  // the driver refuses it
  if (copy->dstMemoryType == CU_MEMORYTYPE_HOST) return Visible;
  const auto* const host = static_cast<const char*>(copy->srcHost);
  if (copy->srcMemoryType == CU_MEMORYTYPE_HOST &&
      from(core, host + source_offset(*copy)) == Visible)
    return Visible;
  if (copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED &&
      from(core, reinterpret_cast<const void*>(copy->srcDevice + source_offset(*copy))) ==
          Visible)
    return Visible;
  return copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED
             ? to(core, copy->dstDevice + target_offset(*copy))
             : Hidden;
}

// For a kernel, by its parameters; Hidden where they hold no such address. `function` may be a
// CUkernel.
SubmissionKind of_kernel(const Allocator& core,
                         const void* function,
                         void** params,
                         void** extra);

inline SubmissionKind of_graphs() {
  if (captures::host_reaching_node_added()) return SubmissionKind::ReachesHostGraph;
  return captures::host_visible_node_added() ? SubmissionKind::VisibleGraph
                                             : SubmissionKind::Graph;
}

inline bool is_address(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

// For a call that may have given the program a pointer by which kernels reach the host: returns
// the call's result. Unnamed: kernels may reach it although no parameter holds an address.
CUresult note_host_pointer(const char* symbol,
                           CUresult result,
                           Submission::Reach reach = Submission::Reach::Unnamed);

template <typename Copy>
Address target(const Copy* copy) {
  return copy != nullptr && is_address(copy->dstMemoryType)
             ? copy->dstDevice + target_offset(*copy)
             : 0;
}

template <typename Copy>
Address source(const Copy* copy) {
  return copy != nullptr && is_address(copy->srcMemoryType)
             ? copy->srcDevice + source_offset(*copy)
             : 0;
}

inline CUstream stream_of(const CUlaunchConfig* config) {
  return config == nullptr ? nullptr : config->hStream;
}

}  // namespace custash::views
