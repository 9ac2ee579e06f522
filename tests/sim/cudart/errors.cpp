// SPDX-License-Identifier: MIT
// Names and texts of codes, the thread's last error, versions.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

struct Row {
  int code;
  const char* name;
  const char* text;
};

constexpr Row kRows[] = {
#define RUNTIME(code, name, text) {code, name, text},
#define BOTH(code, name, driver_name, text) {code, name, text},
#include "tests/sim/errors.def"
};

constexpr const char* kUnknown = "unrecognized error code";

const Row* find(cudaError_t error) {
  for (const Row& row : kRows) {
    if (row.code == static_cast<int>(error)) return &row;
  }
  return nullptr;
}

}  // namespace

extern "C" const char* cudaGetErrorName(cudaError_t error) {
  const Row* row = find(error);
  return row != nullptr ? row->name : kUnknown;
}

extern "C" const char* cudaGetErrorString(cudaError_t error) {
  const Row* row = find(error);
  return row != nullptr ? row->text : kUnknown;
}

extern "C" cudaError_t cudaGetLastError() {
  record(initialise());
  return take_last_error();
}

extern "C" cudaError_t cudaPeekAtLastError() {
  record(initialise());
  return peek_last_error();
}

// Needs no driver.
extern "C" cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// Without a driver: success with 0.
extern "C" cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return record(cudaErrorInvalidValue);
  *version = 0;
  if (initialise().code == cudaErrorInsufficientDriver) return cudaSuccess;
  return record(legacy().driver_get_version(version));
}

// For the entries that unsupported.py writes.
extern "C" int custash_cudart_unsupported() {
  return static_cast<int>(record(cudaErrorNotSupported));
}
