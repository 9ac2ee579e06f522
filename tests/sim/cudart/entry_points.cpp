// SPDX-License-Identifier: MIT
// cudaGetDriverEntryPoint: what the driver's resolver gives for a name, as programs that mix both
// APIs ask for it. Also the few entries that touch neither driver nor context.
#include "tests/sim/cudart/modules.hpp"
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

// cudaEnableDefault means the form that the calling code was built for.
Error entry_point(const char* name, void** entry, unsigned version, unsigned long long flags,
                  unsigned long long default_flags, int* status) {
  constexpr int kFound = 0;
  constexpr int kNotFound = 1;
  if (name == nullptr || entry == nullptr) return cudaErrorInvalidValue;
  *entry = nullptr;
  const cuuint64_t asked = flags == 0 ? default_flags : flags;
  const Error error =
      driver().get_proc_address(name, entry, static_cast<int>(version), asked, nullptr);
  const bool found = error.ok() && *entry != nullptr;
  if (status != nullptr) *status = found ? kFound : kNotFound;
  // With a place for the status, a name that the driver lacks is no error.
  if (!found && status != nullptr) return cudaSuccess;
  return !found && error.ok() ? Error(cudaErrorSymbolNotFound) : error;
}

constexpr unsigned long long kLegacy = 1;     // cudaEnableLegacyStream
constexpr unsigned long long kPerThread = 2;  // cudaEnablePerThreadDefaultStream

}  // namespace

// Declared by hand: toolkits before 12 have no status argument (its absence reads as garbage on
// their programs' side only where they pass one, which they cannot).
#if CUDART_VERSION >= 12000
extern "C" cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry,
                                               unsigned long long flags,
                                               enum cudaDriverEntryPointQueryResult* status) {
  return without_context([=] {
    return entry_point(name, entry, CUDART_VERSION, flags, kLegacy, reinterpret_cast<int*>(status));
  });
}

extern "C" cudaError_t cudaGetDriverEntryPoint_ptsz(const char* name, void** entry,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult* status) {
  return without_context([=] {
    return entry_point(name, entry, CUDART_VERSION, flags, kPerThread,
                       reinterpret_cast<int*>(status));
  });
}
#else
extern "C" cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry,
                                               unsigned long long flags) {
  return without_context(
      [=] { return entry_point(name, entry, CUDART_VERSION, flags, kLegacy, nullptr); });
}

extern "C" cudaError_t cudaGetDriverEntryPoint_ptsz(const char* name, void** entry,
                                                    unsigned long long flags) {
  return without_context(
      [=] { return entry_point(name, entry, CUDART_VERSION, flags, kPerThread, nullptr); });
}
#endif

#if CUDART_VERSION >= 12050
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** entry, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult* status) {
  return without_context([=] {
    return entry_point(name, entry, version, flags, kLegacy, reinterpret_cast<int*>(status));
  });
}

extern "C" cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char* name, void** entry, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult* status) {
  return without_context([=] {
    return entry_point(name, entry, version, flags, kPerThread, reinterpret_cast<int*>(status));
  });
}
#endif

#if CUDART_VERSION >= 12030
extern "C" cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return without_context([=]() -> Error {
    if (name == nullptr) return cudaErrorInvalidValue;
    const Kernel* kernel = find_kernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *name = kernel_name(kernel);
    return cudaSuccess;
  });
}
#endif

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                       cudaChannelFormatKind kind) {
  return cudaChannelFormatDesc{x, y, z, w, kind};
}
