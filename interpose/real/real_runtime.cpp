// SPDX-License-Identifier: MIT
#include "interpose/real/real_runtime.hpp"

#include "interpose/real/dlsym.hpp"
#include "interpose/real/loaded.hpp"

#include <array>
#include <atomic>
#include <cstdint>

#include <dlfcn.h>

namespace custash::runtime {
namespace {

constexpr std::array kNames = {"cudaMalloc",
                               "cudaFree",
                               "cudaMallocPitch",
                               "cudaMallocAsync",
                               "cudaMallocAsync_ptsz",
                               "cudaMallocFromPoolAsync",
                               "cudaMallocFromPoolAsync_ptsz",
                               "cudaFreeAsync",
                               "cudaFreeAsync_ptsz",
                               "cudaMallocHost",
                               "cudaHostAlloc",
                               "cudaFreeHost",
                               "cudaRuntimeGetVersion"};
static_assert(kNames.size() == static_cast<std::size_t>(Call::Count));

// What the names of runtimes begin with.
constexpr const char* kFileName = "libcudart";
constexpr const char* kVersion = "cudaRuntimeGetVersion";  // not one of our hooks

// One shared runtime of the process. The first of the table is the one that most callers have;
// others have a version here: the address of their cudaRuntimeGetVersion.
struct Runtime {
  std::atomic<void*> version{nullptr};
  std::atomic<bool> filled{false};
  std::array<std::atomic<void*>, kNames.size()> addresses{};
};

constexpr std::size_t kRuntimes = 8;
constinit std::array<Runtime, kRuntimes> runtimes{};

// Which runtime the callers on one page of code have: the page's number, and the runtime's in
// the low bits; 0 is an empty slot. A page belongs to one module. Order: a slot is written with
// release after its runtime's version, and read with acquire before it.
constexpr std::size_t kSlots = 256;
constinit std::array<std::atomic<std::uint64_t>, kSlots> pages{};

int major_of(void* version) {
  int number = 0;
  return reinterpret_cast<Error (*)(int*)>(version)(&number) == kSuccess ? number / 1000 : 0;
}

std::size_t number_of(void* version) {
  for (std::size_t i = 1; i < kRuntimes; ++i) {
    void* present = nullptr;
    if (runtimes[i].version.compare_exchange_strong(present, version) || present == version)
      return i;
  }
  return 0;
}

// As the loader bound the caller's other calls of the runtime: in the program's scope first, if
// the version of the symbols there is the caller's, else among the caller's own libraries.
std::size_t find_runtime(const void* caller) {
  // The usual case takes no lock of dlopen's: the caller may be a thread for which another one
  // waits while it runs a library's constructors.
  if (how_many_loaded(kFileName) <= 1) return 0;
  void* const handle = open_owner(caller);
  void* const own = handle == nullptr ? nullptr : real_dlsym()(handle, kVersion);
  if (handle != nullptr) dlclose(handle);
  if (own == nullptr) return 0;
  void* const global = real_dlsym()(RTLD_NEXT, kVersion);
  if (global != nullptr && (global == own || major_of(global) == major_of(own))) return 0;
  return number_of(own);
}

std::size_t runtime_of(const void* caller) {
  if (caller == nullptr) return 0;
  const auto page = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(caller)) >> 12;
  for (std::size_t i = 0; i < kSlots; ++i) {
    auto& slot = pages[(page + i) % kSlots];
    std::uint64_t present = slot.load(std::memory_order_acquire);
    if (present / kRuntimes == page) return present % kRuntimes;
    if (present != 0) continue;
    const std::size_t found = find_runtime(caller);
    slot.compare_exchange_strong(present, page * kRuntimes + found, std::memory_order_acq_rel);
    return found;
  }
  return find_runtime(caller);
}

bool is_runtime(void* handle) {
  return real_dlsym()(handle, kVersion) != nullptr;
}

// The library stays open, so that its addresses stay right. RTLD_NEXT does not find a runtime
// that was loaded with RTLD_LOCAL, as Python's extensions do, though its users' calls reach
// this hook. The process's own list of libraries has it.
void* open_library(const Runtime& runtime) {
  if (void* const version = runtime.version.load(std::memory_order_relaxed))
    return open_owner(version);
  if (void* const next = real_dlsym()(RTLD_NEXT, kVersion)) return open_owner(next);
  return open_loaded(kFileName, is_runtime);
}

// All names at once: a later look-up could come from a thread that must not take dlsym's lock.
bool fill(Runtime& runtime) {
  void* const handle = open_library(runtime);
  if (handle == nullptr) return false;
  const bool is_first = runtime.version.load(std::memory_order_relaxed) == nullptr;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    void* found = is_first ? real_dlsym()(RTLD_NEXT, kNames[i]) : nullptr;
    if (found == nullptr) found = real_dlsym()(handle, kNames[i]);
    runtime.addresses[i].store(found, std::memory_order_release);
  }
  runtime.filled.store(true, std::memory_order_release);
  return true;
}

}  // namespace

constinit std::atomic<int> eager_contexts{-1};

void* look_up(Call call, const void* caller) noexcept {
  Runtime& runtime = runtimes[runtime_of(caller)];
  const auto index = static_cast<std::size_t>(call);
  if (void* const found = runtime.addresses[index].load(std::memory_order_acquire))
    return found;
  // Read again below: another thread may have filled the table since the first look.
  if (!runtime.filled.load(std::memory_order_acquire) && !fill(runtime))
    dlerror();  // a message that is not the program's
  return runtime.addresses[index].load(std::memory_order_acquire);
}

bool find_out_context_is_current() noexcept {
  constexpr int kFirstEager = 12000;
  auto* const get_version = function<Error(int*)>(Call::GetVersion, nullptr);
  int version = 0;
  const bool yes =
      get_version != nullptr && get_version(&version) == kSuccess && version >= kFirstEager;
  eager_contexts.store(yes ? 1 : 0, std::memory_order_relaxed);
  return yes;
}

}  // namespace custash::runtime
