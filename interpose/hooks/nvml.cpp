// SPDX-License-Identifier: MIT
#include "interpose/hooks/nvml.hpp"

#include "allocator/base/log.hpp"
#include "allocator/memory_limits.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/real/dlsym.hpp"
#include "interpose/real/real_driver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace custash::nvml {
namespace {

// As nvml.h has them.
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kNoFunction = 13;
constexpr unsigned long long kNotAvailable = ~0ULL;

struct Memory {
  unsigned long long total, free, used;
};

struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct ProcessUse {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

struct Library {
  int (*handle_of)(const char* bus, void** out) = nullptr;
  int (*processes)(void* device, unsigned* count, ProcessUse* list) = nullptr;

  Library() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      dlerror();  // the program did not ask for it
      return;
    }
    const auto find = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
          real_dlsym()(library, name));
      return *function != nullptr;
    };
    int (*begin)() = nullptr;
    if (!find(&begin, "nvmlInit_v2") || begin() != kSuccess) return;
    (void)find(&handle_of, "nvmlDeviceGetHandleByPciBusId_v2");
    if (!find(&processes, "nvmlDeviceGetComputeRunningProcesses_v3"))
      (void)find(&processes, "nvmlDeviceGetComputeRunningProcesses_v2");
  }
};

const Library& library() {
  static const Library opened;
  return opened;
}

constinit std::array<std::atomic<void*>, 64> handles{};
constinit std::atomic<bool> told_blind{false};
constinit std::atomic<bool> lists_us{false};
constinit std::array<std::atomic<void*>, 2> answers{};  // the real functions

void* handle_of(CUdevice device) {
  if (device < 0 || static_cast<std::size_t>(device) >= handles.size()) return nullptr;
  std::atomic<void*>& known = handles[static_cast<std::size_t>(device)];
  if (void* const handle = known.load()) return handle;
  static auto* const ask =
      reinterpret_cast<CUresult (*)(char*, int, CUdevice)>(real::symbol("cuDeviceGetPCIBusId"));
  char bus[32] = "";
  void* handle = nullptr;
  if (ask != nullptr && ask(bus, sizeof bus, device) == CUDA_SUCCESS &&
      library().handle_of != nullptr && library().handle_of(bus, &handle) == kSuccess)
    known.store(handle);
  return handle;
}

// Without limit_all, and for the devices of others, the answer stays.
template <typename Form>
void agree(void* handle, Form* out) {
  Allocator* const core = process::core();
  int devices = 0;
  if (core == nullptr || core->driver().device_get_count(&devices) != CUDA_SUCCESS) return;
  for (CUdevice device = 0; device < devices; ++device) {
    if (handle_of(device) != handle) continue;
    core->limits().apply_options(device);
    if (!core->limits().budget(device).quota().limited()) return;
    const charges::FreeMemory now =
        charges::free_memory(*core, device, {out->free, out->total});
    out->free = now.free;
    out->total = now.total;
    out->used = now.total - now.free;
    if constexpr (std::is_same_v<Form, Memory2>) out->reserved = 0;
    return;
  }
}

template <std::size_t kWhich, typename Form>
int memory_info(void* device, Form* out) noexcept {
  auto* const real = reinterpret_cast<int (*)(void*, Form*)>(answers[kWhich].load());
  if (real == nullptr) return kNoFunction;
  const int result = real(device, out);
  if (result == kSuccess && out != nullptr) quietly([&] { agree(device, out); });
  return result;
}

}  // namespace

void open_library() noexcept {
  (void)library();
}

std::optional<Bytes> used_here(CUdevice device, bool has_memory) noexcept {
  std::optional<Bytes> used;
  quietly([&] {
    void* const handle = handle_of(device);
    unsigned count = 64;
    std::vector<ProcessUse> list;
    int result =
        handle == nullptr || library().processes == nullptr ? kNoFunction : kInsufficientSize;
    for (int tries = 0; result == kInsufficientSize && tries < 3; ++tries) {
      list.resize(count += 16);  // some may begin meanwhile
      count = static_cast<unsigned>(list.size());
      result = library().processes(handle, &count, list.data());
    }
    for (unsigned i = 0; result == kSuccess && i < count && i < list.size(); ++i)
      if (list[i].pid == static_cast<unsigned>(getpid()) && list[i].used != kNotAvailable)
        used = used.value_or(0) + list[i].used;
    // It lists processes that have a context, under the numbers of one namespace.
    if (used)
      lists_us.store(true);
    else if (result == kSuccess && lists_us.load())
      used = 0;
    if (!used && has_memory && !told_blind.exchange(true))
      log(LogLevel::Warn,
          "event=limit_unmeasured reason=\"NVML does not say what this process uses: contexts, "
          "code and memory of graphs are not counted\"");
  });
  return used;
}

void* wrapper_of(const char* name, void* found) noexcept {
  constexpr const char* kNames[] = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"};
  void* const wrappers[] = {reinterpret_cast<void*>(&memory_info<0, Memory>),
                            reinterpret_cast<void*>(&memory_info<1, Memory2>)};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (std::strcmp(name, kNames[i]) != 0) continue;
    answers[i].store(found);
    return wrappers[i];
  }
  return nullptr;
}

}  // namespace custash::nvml
