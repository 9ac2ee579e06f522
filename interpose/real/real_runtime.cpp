// SPDX-License-Identifier: MIT
#include "interpose/real/real_runtime.hpp"

#include "interpose/real/resolve.hpp"

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace custash::runtime {
namespace {

constexpr std::array kNames = {"cudaMalloc",
                               "cudaFree",
                               "cudaMallocAsync",
                               "cudaMallocAsync_ptsz",
                               "cudaFreeAsync",
                               "cudaFreeAsync_ptsz",
                               "cudaMallocHost",
                               "cudaHostAlloc",
                               "cudaFreeHost",
                               "cudaRuntimeGetVersion"};
static_assert(kNames.size() == static_cast<std::size_t>(Call::Count));

constinit std::array<std::atomic<void*>, kNames.size()> addresses{};

struct Path {
  char text[PATH_MAX];
};

int note_runtime(dl_phdr_info* info, std::size_t, void* out) {
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const file = slash == nullptr ? info->dlpi_name : slash + 1;
  // Wheels rename it: libcudart-0a1b2c3d.so.12
  if (std::strncmp(file, "libcudart", 9) != 0) return 0;
  auto& path = *static_cast<Path*>(out);
  if (std::strlen(info->dlpi_name) >= sizeof path.text) return 0;
  std::strcpy(path.text, info->dlpi_name);
  return 1;
}

// RTLD_NEXT does not find a runtime that was loaded with RTLD_LOCAL, as Python's extensions do,
// though its users' calls reach this hook. The process's own list of libraries has it.
void* in_loaded_runtime(const char* name) {
  Path path;
  if (dl_iterate_phdr(note_runtime, &path) == 0) return nullptr;
  void* const handle = dlopen(path.text, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : real_dlsym()(handle, name);
}

}  // namespace

constinit std::atomic<int> eager_contexts{-1};

void* look_up(Call call) noexcept {
  const auto index = static_cast<std::size_t>(call);
  void* found = addresses[index].load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  found = real_dlsym()(RTLD_NEXT, kNames[index]);
  if (found == nullptr) found = in_loaded_runtime(kNames[index]);
  if (found == nullptr) dlerror();  // a message that is not the program's
  addresses[index].store(found, std::memory_order_relaxed);
  return found;
}

bool find_out_context_is_current() noexcept {
  constexpr int kFirstEager = 12000;
  auto* const get_version = function<Error(int*)>(Call::GetVersion);
  int version = 0;
  const bool yes =
      get_version != nullptr && get_version(&version) == kSuccess && version >= kFirstEager;
  eager_contexts.store(yes ? 1 : 0, std::memory_order_relaxed);
  return yes;
}

}  // namespace custash::runtime
