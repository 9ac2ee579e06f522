// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/hooks/kernel_name.hpp"
#include "interpose/hooks/layouts.hpp"

#include <atomic>

namespace custash {

// The functions are looked up once; two threads that do so find the same.
std::string kernel_name(const void* function) {
  using Ask = CUresult(const char**, const void*);
  static constexpr const char* kNames[] = {"cuFuncGetName", "cuKernelGetName"};
  static std::atomic<Ask*> asks[] = {nullptr, nullptr};
  const std::size_t which = layouts::is_kernel(function) ? 1 : 0;
  if (asks[which].load() == nullptr)
    asks[which].store(reinterpret_cast<Ask*>(real::symbol(kNames[which])));
  Ask* const ask = asks[which].load();
  const char* name = nullptr;
  const bool told = ask != nullptr && ask(&name, function) == CUDA_SUCCESS && name != nullptr;
  return told ? name : "a kernel";
}

}  // namespace custash
