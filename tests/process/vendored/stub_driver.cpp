// SPDX-License-Identifier: MIT
// A libcuda.so.1 like the toolkit's stub: a program links with it, and each call fails.
#include "tests/process/driver.h"

namespace {
constexpr int kStubLibrary = 34;  // CUDA_ERROR_STUB_LIBRARY
}

#define DEFINE(name, params)   \
  extern "C" int name params { \
    return kStubLibrary;       \
  }
DRIVER_CALLS(DEFINE)
DEFINE(cuGetProcAddress_v2, (const char*, void**, int, unsigned long long, void*))
