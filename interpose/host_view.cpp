// SPDX-License-Identifier: MIT
#include "interpose/host_view.hpp"

#include <algorithm>

#include "interpose/callers.hpp"
#include "interpose/process.hpp"
#include "interpose/real_driver.hpp"

namespace custash::views {
namespace {

// Memory that is not ours: of a pool, mapped by the program, of another library. Managed memory
// counts as the host's.
bool is_device_only(CUdeviceptr target) {
  auto* const ask = real::function<CUresult(unsigned, CUpointer_attribute*, void**, CUdeviceptr)>(
      Entry::door_cuPointerGetAttributes);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0;
  unsigned managed = 0;
  void* answers[] = {&type, &managed};
  return ask != nullptr && ask(2, attributes, answers, target) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE && managed == 0;
}

}  // namespace

HostView to(Allocator& core, CUdeviceptr target) {
  return core.owns(target) || is_device_only(target) ? Hidden : Visible;
}

HostView to_all(Allocator& core, const CUdeviceptr* targets, std::size_t count) {
  constexpr std::size_t kSearched = 16;
  if (targets == nullptr || count > kSearched) return Visible;
  const auto hidden = [&core](CUdeviceptr target) { return to(core, target) == Hidden; };
  return std::all_of(targets, targets + count, hidden) ? Hidden : Visible;
}

CUresult note_host_pointer(const char* symbol, CUresult result) {
  if (result != CUDA_SUCCESS || callers::is_library_of_nvidia(callers::current)) return result;
  if (Allocator* const core = process::core()) core->kernels_become_host_visible(symbol);
  return result;
}

}  // namespace custash::views
