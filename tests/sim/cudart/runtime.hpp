// SPDX-License-Identifier: MIT
// What every entry of the runtime double goes through: lazy initialisation, the current
// device's primary context, the thread's last error. The state is made at the first call and
// never destroyed (programs call from static destructors). Thread safe; own lock around
// contexts only.
#pragma once

#include "tests/sim/cudart/driver_table.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace custash::cudart {

// Result of an entry's body. Both enumerations agree wherever both have a code.
struct Error {
  Error(CUresult result) : code(static_cast<cudaError_t>(result)) {}  // NOLINT: is one

  Error(cudaError_t error) : code(error) {}  // NOLINT: is one

  [[nodiscard]] bool ok() const { return code == cudaSuccess; }

  cudaError_t code;
};

// Loads the driver and calls cuInit, once; the first outcome stays.
Error initialise();

// Valid after initialise(), also when it failed (every entry then answers NOT_SUPPORTED).
const DriverTable& driver();

inline const Calls& legacy() {
  return driver().legacy;
}

inline const Calls& per_thread() {
  return driver().per_thread;
}

int device_count();

// The calling thread's device, whether or not it has a context yet.
int current_device();
// Makes the device's primary context current to the calling thread.
Error set_device(int device);
// Makes some context current: leaves the one that is, else the thread's device's primary one.
Error ensure_context();
Error primary_context(int device, CUcontext* context);
// cudaDeviceReset.
Error reset_device();
Error set_device_flags(unsigned flags);

// Notes a failure for cudaGetLastError and hands the code on.
cudaError_t record(Error error);
cudaError_t peek_last_error();
cudaError_t take_last_error();

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Runs an entry's body where no context is needed.
template <class Body>
cudaError_t without_context(Body body) {
  Error error = initialise();
  if (error.ok()) error = body();
  return record(error);
}

// The same with a current context.
template <class Body>
cudaError_t with_context(Body body) {
  Error error = initialise();
  if (error.ok()) error = ensure_context();
  if (error.ok()) error = body();
  return record(error);
}

// The runtime answers a size of 0 itself, and clears the pointer where the driver says no.
Error allocate(void** pointer, size_t bytes, const auto& from_driver) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  CUdeviceptr address = 0;
  const Error error = from_driver(&address);
  if (error.ok()) *pointer = reinterpret_cast<void*>(address);
  return error;
}

}  // namespace custash::cudart

// An entry and its per-thread-default-stream form. The body sees `cu`, the fitting driver
// table.
#define CUDART_ENTRY_BOTH(name, suffix, parameters, ...)                                 \
  extern "C" cudaError_t name parameters {                                               \
    return custash::cudart::with_context([&]() -> custash::cudart::Error {               \
      [[maybe_unused]] const custash::cudart::Calls& cu = custash::cudart::legacy();     \
      __VA_ARGS__                                                                        \
    });                                                                                  \
  }                                                                                      \
  extern "C" cudaError_t name##suffix parameters {                                       \
    return custash::cudart::with_context([&]() -> custash::cudart::Error {               \
      [[maybe_unused]] const custash::cudart::Calls& cu = custash::cudart::per_thread(); \
      __VA_ARGS__                                                                        \
    });                                                                                  \
  }

// An entry with one form that needs a current context.
#define CUDART_ENTRY(name, parameters, ...)                                          \
  extern "C" cudaError_t name parameters {                                           \
    return custash::cudart::with_context([&]() -> custash::cudart::Error {           \
      [[maybe_unused]] const custash::cudart::Calls& cu = custash::cudart::legacy(); \
      __VA_ARGS__                                                                    \
    });                                                                              \
  }

// One that is a call of the driver's and no more.
#define CUDART_CALL(name, parameters, ...) \
  CUDART_ENTRY(name, parameters, { return cu.__VA_ARGS__; })
#define CUDART_CALL_BOTH(name, suffix, parameters, ...) \
  CUDART_ENTRY_BOTH(name, suffix, parameters, { return cu.__VA_ARGS__; })

// An entry that needs none.
#define CUDART_ENTRY_BARE(name, parameters, ...)                                     \
  extern "C" cudaError_t name parameters {                                           \
    return custash::cudart::without_context([&]() -> custash::cudart::Error {        \
      [[maybe_unused]] const custash::cudart::Calls& cu = custash::cudart::legacy(); \
      __VA_ARGS__                                                                    \
    });                                                                              \
  }
