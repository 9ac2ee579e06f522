// SPDX-License-Identifier: MIT
#include "interpose/hooks/host_view.hpp"

#include "allocator/submission.hpp"
#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/real_driver.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace custash::views {
namespace {

// Zeros where the driver does not know.
struct Kind {
  unsigned type = 0;
  unsigned managed = 0;
};

Kind kind_of(CUdeviceptr target) {
  auto* const ask =
      real::function<CUresult(unsigned, CUpointer_attribute*, void**, CUdeviceptr)>(
          Entry::hook_cuPointerGetAttributes);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  Kind kind;
  void* answers[] = {&kind.type, &kind.managed};
  const bool told = ask != nullptr && ask(2, attributes, answers, target) == CUDA_SUCCESS;
  return told ? kind : Kind{};
}

// Memory that is not ours: from a pool, mapped by the program, or of another library. Managed
// memory counts as host memory.
bool is_device_only(CUdeviceptr target) {
  const Kind kind = kind_of(target);
  return kind.type == CU_MEMORYTYPE_DEVICE && kind.managed == 0;
}

// Pageable memory where kernels reach it: mapped in this process, and no device's. Most
// addresses are ours, so the driver is not queried.
bool is_pageable(const Allocator& core, Address word) {
  return !core.owns(word) && pageable::is_mapped(word) && !is_device_only(word);
}

// CUDA_MEMCPY3D_BATCH_OP of CUDA 12.8 and later.
struct BatchOperand {
  int type;
  unsigned long long pointer;  // or what an array needs
  unsigned long long rest[3];

  static constexpr int kPointer = 1;

  [[nodiscard]] CUdeviceptr place() const { return type == kPointer ? pointer : 0; }
};

struct BatchCopy {
  BatchOperand source;
  BatchOperand target;
  std::size_t extent[3];
  unsigned order;
  unsigned flags;
};
#if CUDA_VERSION >= 12080
static_assert(sizeof(BatchCopy) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(offsetof(BatchCopy, target) == offsetof(CUDA_MEMCPY3D_BATCH_OP, dst));
static_assert(offsetof(BatchOperand, pointer) == offsetof(CUmemcpy3DOperand, op));
static_assert(BatchOperand::kPointer == CU_MEMCPY_OPERAND_TYPE_POINTER);
#endif

}  // namespace

SubmissionKind to(Allocator& core, CUdeviceptr target) {
  return core.owns(target) || is_device_only(target) ? Hidden : Visible;
}

SubmissionKind from(Allocator& core, const void* source) {
  const bool matters = core.config().free_mode == FreeMode::Copies;
  return matters && is_shared_with_host(reinterpret_cast<CUdeviceptr>(source)) ? Visible
                                                                               : Hidden;
}

bool is_shared_with_host(CUdeviceptr address) {
  const Kind kind = kind_of(address);
  return kind.type == CU_MEMORYTYPE_HOST || kind.managed != 0;
}

SubmissionKind of_batch(Allocator& core,
                        CUstream stream,
                        const CUdeviceptr* targets,
                        const CUdeviceptr* sources,
                        std::size_t count) {
  constexpr std::size_t kSearched = 16;
  if (targets == nullptr || sources == nullptr) return Visible;
  Submission::will_touch(core, stream, NullStream::PerThread, {targets, count});
  Submission::will_touch(core, stream, NullStream::PerThread, {sources, count});
  if (count > kSearched) return Visible;
  for (std::size_t i = 0; i < count; ++i)
    if (between(core, targets[i], sources[i]) == Visible) return Visible;
  return Hidden;
}

SubmissionKind of_batch_3d(Allocator& core,
                           CUstream stream,
                           const void* list,
                           std::size_t count) {
  if (list == nullptr) return Visible;
  std::vector<CUdeviceptr> touched;
  for (const BatchCopy& copy : std::span(static_cast<const BatchCopy*>(list), count)) {
    touched.push_back(copy.source.place());
    touched.push_back(copy.target.place());
  }
  Submission::will_touch(core, stream, NullStream::PerThread, touched);
  return Visible;
}

// If every kernel counts already, its parameters are not read.
SubmissionKind of_kernel(const Allocator& core,
                         const void* function,
                         void** params,
                         void** extra) {
  if (Submission::kernels_host_visible(core) && core.config().free_mode != FreeMode::Parameters)
    return Hidden;
  const bool reached = pageable::is_reached(core.driver());
  switch (parameters::find_host_addresses(
      core.driver(), function, params, extra, &core, reached ? is_pageable : nullptr)) {
    case parameters::HostAddresses::Some:
      return SubmissionKind::ReachesHost;
    case parameters::HostAddresses::None:
      return SubmissionKind::Apart;
    case parameters::HostAddresses::Unknown:
      break;
  }
  return Hidden;
}

CUresult note_host_pointer(const char* symbol, CUresult result, Submission::Reach reach) {
  if (result != CUDA_SUCCESS || callers::is_library_of_nvidia(callers::current)) return result;
  if (Allocator* const core = process::core())
    Submission::kernels_become_host_visible(*core, symbol, reach);
  return result;
}

}  // namespace custash::views
