// SPDX-License-Identifier: MIT
#include "interpose/hooks/hook.hpp"

#include "interpose/hooks/parameters.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/service/neighbours.hpp"

namespace custash::hooks {

bool relieve(Allocator& core) noexcept {
  const CancellationOff off;
  if (captures::under_way()) return false;
  CUcontext context = nullptr;
  if (core.driver().ctx_get_current(&context) != CUDA_SUCCESS) return false;
  try {
    const bool pinned = process::pinned().reclaim().relieve();
    if (context != nullptr) return core.relieve(context) || pinned;
    core.empty_all_caches();  // a context is being made, and no argument says for which device
    return true;
  } catch (...) {
    return false;
  }
}

CUresult unless_broken(Allocator& core, CUresult code) {
  const CancellationOff off;
  CUcontext context = nullptr;
  if (core.driver().ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr ||
      !core.context_broken(context)) {
    return code;
  }
  const CUresult fault = core.driver().ctx_synchronize();
  return fault == CUDA_SUCCESS ? code : fault;
}

void note_fault(CUresult code) noexcept {
  const CancellationOff off;
  if (const CheckLibrary* const checks = check_library()) checks->fault(code);
  try {
    if (Allocator* const core = process::current.load()) core->look_for_faults();
  } catch (...) {  // out of host memory: the next call tries again
  }
}

bool relieve_by_neighbours(Allocator& core) noexcept {
  constexpr Bytes kEnough = 1_GiB;  // the size that the call needs is unknown
  CUdevice device = 0;
  return core.config().neighbours && !captures::under_way() &&
         core.driver().ctx_get_device(&device) == CUDA_SUCCESS &&
         neighbours::ask(device, kEnough) != 0;
}

}  // namespace custash::hooks

namespace custash::call_names {

Reading of_kernel(const void* function,
                  void** params,
                  void** extra,
                  std::vector<Address>* out) {
  constexpr std::size_t kTensorMapWords = 16;
  Allocator* const core = process::core();
  if (core == nullptr) return Reading::None;
  const auto note = [](void* addresses, Address word, std::size_t) {
    if (Allocator* const its = process::core(); its != nullptr && its->owns(word))
      static_cast<std::vector<Address>*>(addresses)->push_back(word);
  };
  const std::optional<std::size_t> largest =
      parameters::visit_words(core->driver(), function, params, extra, note, out);
  if (!largest) return Reading::None;
  return *largest < kTensorMapWords ? Reading::Whole : Reading::InPart;
}

}  // namespace custash::call_names
