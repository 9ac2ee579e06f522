// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/check/kernel_name.hpp"
#include "interpose/hooks/layouts.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <atomic>
#include <set>
#include <string>
#include <unordered_map>

namespace custash {
namespace {

constinit RankedMutex mutex{HookRank::KernelNames};

// Never destroyed.
struct Names {
  std::uint64_t epoch = 0;  // of the layouts: whether a handle may be another kernel's since
  std::unordered_map<const void*, const char*> by_function;
  std::set<std::string> all;
};

Names& names() REQUIRES(mutex) {
  static auto* const made = new Names;
  return *made;
}

const char* find(const void* function, std::uint64_t epoch) {
  const RankedLock lock(mutex);
  if (names().epoch != epoch) return nullptr;
  const auto found = names().by_function.find(function);
  return found == names().by_function.end() ? nullptr : found->second;
}

// The functions are looked up once; two threads that do so find the same.
const char* ask_driver(const void* function) {
  using Ask = CUresult(const char**, const void*);
  static constexpr const char* kNames[] = {"cuFuncGetName", "cuKernelGetName"};
  static std::atomic<Ask*> asks[] = {nullptr, nullptr};
  const std::size_t which = layouts::is_kernel(function) ? 1 : 0;
  if (asks[which].load() == nullptr)
    asks[which].store(reinterpret_cast<Ask*>(real::symbol(kNames[which])));
  Ask* const ask = asks[which].load();
  const char* name = nullptr;
  const bool told = ask != nullptr && ask(&name, function) == CUDA_SUCCESS && name != nullptr;
  return told ? name : kUnknownKernel;
}

}  // namespace

const char* kernel_name(const void* function) noexcept {
  try {
    const std::uint64_t epoch = layouts::epoch_now();
    if (const char* const known = find(function, epoch)) return known;
    const char* const told = ask_driver(function);
    if (told == kUnknownKernel) return told;
    const RankedLock lock(mutex);
    if (names().epoch != epoch) names().by_function.clear();
    names().epoch = epoch;
    const char* const kept = names().all.insert(told).first->c_str();
    names().by_function[function] = kept;
    return kept;
  } catch (...) {
    return kUnknownKernel;
  }
}

void reset_kernel_names_after_fork() noexcept {
  mutex.reset_after_fork();
}

}  // namespace custash
