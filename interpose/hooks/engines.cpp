// SPDX-License-Identifier: MIT
#include "interpose/hooks/engines.hpp"

#include "allocator/peer_processes.hpp"
#include "interpose/process/process.hpp"
#include "interpose/real/dlsym.hpp"
#include "interpose/real/loaded.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

#include <dlfcn.h>

namespace custash::engines {
namespace {

struct Engine {
  const char* beginning;  // the function's name
  const char* library;    // what its file's name begins with
  const char* name;
  int missing;                        // what the function answers if there is no library
  std::atomic<void*> looked_up = {};  // Order: release and acquire
};

constexpr std::size_t kDecoder = 0, kEncoder = 1, kOptix = 2;
constinit std::array<Engine, 3> all{{
    {"cuvidCreateDecoder", "libnvcuvid", "NVDEC", CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND},
    {"NvEncodeAPICreateInstance", "libnvidia-encode", "NVENC", 1},  // NO_ENCODE_DEVICE
    {"optixQueryFunctionTable", "libnvoptix", "OptiX", 7804},       // LIBRARY_NOT_FOUND
}};

constinit std::atomic<const char*> first{nullptr};

void begins(const char* name) noexcept {
  const char* none = nullptr;
  if (!first.compare_exchange_strong(none, name)) return;
  try {
    if (Allocator* const core = process::core()) PeerProcesses(*core).let_engine_reach(name);
  } catch (...) {  // out of host memory
    first.store(nullptr);
  }
}

// For a caller that is linked with the library. Sought anew each time: what a look-up found may
// be gone.
void* find(const Engine& engine) noexcept {
  if (void* const next = real_dlsym()(RTLD_NEXT, engine.beginning)) return next;
  void* const library = open_loaded(engine.library, [](void*) { return true; });
  return library == nullptr ? nullptr : real_dlsym()(library, engine.beginning);
}

template <typename... Args>
int begin(const Engine& engine, void* function, Args... args) noexcept {
  begins(engine.name);
  auto* const real = reinterpret_cast<int (*)(Args...)>(function);
  return real == nullptr ? engine.missing : real(args...);
}

// What a look-up answers.
template <std::size_t kEngine, typename... Args>
int looked_up(Args... args) {
  return begin(all[kEngine], all[kEngine].looked_up.load(std::memory_order_acquire), args...);
}

}  // namespace

void* wrapper_of(const char* name, void* found) noexcept {
  void* const wrappers[] = {
      reinterpret_cast<void*>(&looked_up<kDecoder, void*, void*>),
      reinterpret_cast<void*>(&looked_up<kEncoder, void*>),
      reinterpret_cast<void*>(
          &looked_up<kOptix, int, unsigned, void*, void*, void*, std::size_t>)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::strcmp(name, all[i].beginning) != 0) continue;
    // Found in the program's own scope: that function finds the library's itself.
    if (is_exported != nullptr && is_exported(found)) return nullptr;
    all[i].looked_up.store(found, std::memory_order_release);
    return wrappers[i];
  }
  return nullptr;
}

const char* used() noexcept {
  return first.load();
}

int create_decoder(void* decoder, void* parameters) noexcept {
  return begin(all[kDecoder], find(all[kDecoder]), decoder, parameters);
}

int create_encoder(void* functions) noexcept {
  return begin(all[kEncoder], find(all[kEncoder]), functions);
}

}  // namespace custash::engines
