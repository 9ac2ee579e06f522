// SPDX-License-Identifier: MIT
// What watches over a program's use of device memory: compute-sanitizer, whose memcheck knows
// allocations of the driver only, and cuda-gdb. How they are told: compute-sanitizer exports a
// port to its target, or names its collection library for injection (profilers use that variable,
// too); a debugger sets variables of libcuda (cudadebugger.h).
#pragma once

#include <string_view>

namespace custash::checkers {

inline constexpr const char* kInjection = "CUDA_INJECTION64_PATH";
inline constexpr std::string_view kCollector = "libsanitizer-collection";
inline constexpr const char* kPorts[] = {"NV_SANITIZER_INJECTION_PORT_BASE",
                                         "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN"};

// Called at load, before the program's threads: see process.cpp.
void read_environment() noexcept;
// What says that compute-sanitizer watches this process: a variable or a loaded library; null.
const char* sanitizer() noexcept;
// Null without one; asked once the driver is up.
const char* debugger() noexcept;

}  // namespace custash::checkers
