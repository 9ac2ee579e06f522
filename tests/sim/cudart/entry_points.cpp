// SPDX-License-Identifier: MIT
// cudaGetDriverEntryPoint: what the driver's resolver gives for a name, as programs that mix
// both APIs ask for it. Also the few entries that touch neither driver nor context.
#include "tests/sim/cudart/modules.hpp"
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

// cudaEnableDefault means the form that the calling code was built for. A name that the driver
// lacks is no error; both enumerations of the status agree.
Error entry_point(const char* name,
                  void** entry,
                  unsigned version,
                  unsigned long long flags,
                  unsigned long long default_flags,
                  void* status) {
  if (name == nullptr || entry == nullptr) return cudaErrorInvalidValue;
  *entry = nullptr;
  const cuuint64_t asked = flags == 0 ? default_flags : flags;
  return driver().get_proc_address(name, entry, static_cast<int>(version), asked, status);
}

constexpr unsigned long long kLegacy = 1;     // cudaEnableLegacyStream
constexpr unsigned long long kPerThread = 2;  // cudaEnablePerThreadDefaultStream

}  // namespace

// Both forms of one: what flags of 0 mean is where they differ.
#define CUDART_ENTRY_POINT(name, parameters, ...)        \
  extern "C" cudaError_t name parameters {               \
    constexpr unsigned long long kDefault = kLegacy;     \
    return without_context([=] { return __VA_ARGS__; }); \
  }                                                      \
  extern "C" cudaError_t name##_ptsz parameters {        \
    constexpr unsigned long long kDefault = kPerThread;  \
    return without_context([=] { return __VA_ARGS__; }); \
  }

// Toolkits before 12 have neither the type nor the argument.
#if CUDART_VERSION >= 12000
using StatusOut = enum cudaDriverEntryPointQueryResult*;

CUDART_ENTRY_POINT(
    cudaGetDriverEntryPoint,
    (const char* asked, void** entry, unsigned long long flags, StatusOut status),
    entry_point(asked, entry, CUDART_VERSION, flags, kDefault, status))
#else
using StatusOut = void*;

CUDART_ENTRY_POINT(cudaGetDriverEntryPoint,
                   (const char* asked, void** entry, unsigned long long flags),
                   entry_point(asked, entry, CUDART_VERSION, flags, kDefault, nullptr))
#endif

CUDART_ENTRY_POINT(cudaGetDriverEntryPointByVersion,
                   (const char* asked,
                    void** entry,
                    unsigned version,
                    unsigned long long flags,
                    StatusOut status),
                   entry_point(asked, entry, version, flags, kDefault, status))

extern "C" cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return without_context([=]() -> Error {
    if (name == nullptr) return cudaErrorInvalidValue;
    const Kernel* kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *name = kernel_name(kernel);
    return cudaSuccess;
  });
}

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(
    int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return cudaChannelFormatDesc{x, y, z, w, kind};
}
