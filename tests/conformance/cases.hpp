// SPDX-License-Identifier: MIT
// What the conformance cases share. A case is a function that makes CUDA calls and says the
// code of each and what it was answered: `conformance NAME` runs one in a process of its own.
// What it says must be the same bare and with custash, on the simulator and on a GPU, whichever
// runtime and default stream it is built with; only lines that begin with # may differ. Never
// an address: they are nobody's promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace conformance {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kTooLarge = std::size_t{1} << 45;

// ---- The list of cases.
struct Case {
  const char* name;
  void (*run)();
  Case* next;
  static inline Case* first = nullptr;

  Case(const char* its_name, void (*its_run)()) : name(its_name), run(its_run), next(first) {
    first = this;
  }
};

// Names say the group first; a case whose group is `memory` must have the device to itself.
#define CASE(name)                            \
  static void name();                         \
  static const Case case_##name(#name, name); \
  static void name()

inline void say(long long answer, const char* call) {
  std::printf("%lld %s\n", answer, call);
  std::fflush(stdout);
}

#define SAY(call) say(static_cast<long long>(call), #call)
// And what the runtime then keeps as the last error.
#define SAY_WITH_LAST(call)                   \
  do {                                        \
    say(static_cast<long long>(call), #call); \
    SAY(cudaGetLastError());                  \
  } while (0)

// The driver's entry of this exported name, found as a program finds it that does not link the
// driver.
void* find_entry(const char* name);

// 500 where the driver has no such entry.
template <typename... Params, typename... Args>
CUresult entry(const char* name, CUresult (*)(Params...), Args... args) {
  auto* const found = reinterpret_cast<CUresult (*)(Params...)>(find_entry(name));
  return found == nullptr ? CUDA_ERROR_NOT_FOUND : found(args...);
}

// CU(cuMemAlloc_v2, cuMemAlloc)(&p, 512): the symbol, and what cuda.h declares of its shape.
#define CU(symbol, declared)                                                   \
  [](auto... args) {                                                           \
    return entry(#symbol, static_cast<decltype(&declared)>(nullptr), args...); \
  }

// For entries that older headers lack, or whose shape depends on the toolkit.
template <typename... Args>
CUresult call(const char* name, Args... args) {
  auto* const found = reinterpret_cast<CUresult (*)(Args...)>(find_entry(name));
  return found == nullptr ? CUDA_ERROR_NOT_FOUND : found(args...);
}

// A difference that docs/semantics.md lists: bare says `bare`, custash `custash`.
void known_difference(const char* what, long long is, long long bare, long long custash);
#define DIFFERS(call, bare, custash) \
  known_difference(#call, static_cast<long long>(call), bare, custash)

bool preloaded();
bool on_simulator();
// For what the simulator answers otherwise than a GPU's driver: only custash's answer is known.
#define GPU_SAYS(call, answer)                      \
  do {                                              \
    const auto said = static_cast<long long>(call); \
    known_difference(#call, said, said, answer);    \
  } while (0)

inline char* at(void* p, std::size_t offset) {
  return static_cast<char*>(p) + offset;
}

inline CUdeviceptr address(const void* p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

inline void* pointer(CUdeviceptr p) {
  return reinterpret_cast<void*>(p);  // NOLINT(performance-no-int-to-ptr)
}

// ---- Work.
// The words of the block that are not `value`, read back behind all work; -1 when it cannot be
// read.
long long wrong_words(const void* p, std::size_t bytes, unsigned value);
// In the current context, a word a thread: conformance_write(where, words, value), and
// conformance_fetch(texture, where, width, pitch), which reads a block a row. The simulator's
// needs the pitch, which a texture knows.
CUresult find_kernel(CUfunction* kernel, const char* name = "conformance_write");
inline constexpr unsigned kThreads = 256;
// A kernel that writes `value` to `words` words at `p`; the code of the launch.
CUresult write_words(cudaStream_t stream, void* p, std::size_t words, unsigned value);

struct Stream {
  Stream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }

  ~Stream() {
    if (handle != nullptr) cudaStreamDestroy(handle);
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return handle; }  // NOLINT(google-explicit-constructor)

  cudaStream_t handle = nullptr;
};

// False, having said so, with fewer.
bool have_devices(int wanted);

// Of the current device; 0 where nobody says.
std::size_t free_now();

}  // namespace conformance
