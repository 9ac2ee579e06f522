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
  int missing;                   // what the function answers if there is no library
  std::atomic<void*> real = {};  // Order: release and acquire, as in real_driver.cpp
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

// A program that is linked with the library has made no look-up.
void* find(const Engine& engine) noexcept {
  if (void* const found = engine.real.load(std::memory_order_acquire)) return found;
  if (void* const next = real_dlsym()(RTLD_NEXT, engine.beginning)) return next;
  void* const library = open_loaded(engine.library, [](void*) { return true; });
  return library == nullptr ? nullptr : real_dlsym()(library, engine.beginning);
}

template <typename... Args>
int begin(const Engine& engine, Args... args) noexcept {
  begins(engine.name);
  auto* const real = reinterpret_cast<int (*)(Args...)>(find(engine));
  return real == nullptr ? engine.missing : real(args...);
}

int query_optix(
    int abi, unsigned count, void* keys, void* values, void* table, std::size_t size) {
  return begin(all[kOptix], abi, count, keys, values, table, size);
}

}  // namespace

void* wrapper_of(const char* name, void* found) noexcept {
  void* const wrappers[] = {reinterpret_cast<void*>(&create_decoder),
                            reinterpret_cast<void*>(&create_encoder),
                            reinterpret_cast<void*>(&query_optix)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::strcmp(name, all[i].beginning) != 0) continue;
    all[i].real.store(found, std::memory_order_release);
    return wrappers[i];
  }
  return nullptr;
}

const char* used() noexcept {
  return first.load();
}

int create_decoder(void* decoder, void* parameters) noexcept {
  return begin(all[kDecoder], decoder, parameters);
}

int create_encoder(void* functions) noexcept {
  return begin(all[kEncoder], functions);
}

}  // namespace custash::engines
