// SPDX-License-Identifier: MIT
// Tools that check a program's use of device memory: compute-sanitizer, whose memcheck knows
// only the driver's allocations, and cuda-gdb. They are recognised by variables:
// compute-sanitizer exports a port to its target, or names its collection library for injection
// (as profilers do). A debugger sets variables of libcuda (cudadebugger.h).
#pragma once

#include <string_view>

namespace custash::checkers {

inline constexpr const char* kInjection = "CUDA_INJECTION64_PATH";
inline constexpr std::string_view kCollector = "libsanitizer-collection";
inline constexpr const char* kPorts[] = {"NV_SANITIZER_INJECTION_PORT_BASE",
                                         "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN"};

// The first of these variables that `get` finds; null where there is none.
template <typename Get>
const char* told_by_environment(Get get) {
  const char* found = nullptr;
  for (const char* const name : kPorts)
    if (get(name) != nullptr) found = name;
  const char* const path = get(kInjection);
  if (path != nullptr && std::string_view(path).find(kCollector) != std::string_view::npos)
    found = kInjection;
  return found;
}

// Called at load, before the program's threads: see startup.cpp.
void read_environment() noexcept;
// The variable or loaded library that shows compute-sanitizer in this process; null where there
// is none.
const char* sanitizer() noexcept;
// Null without one; asked once the driver is up.
const char* debugger() noexcept;

}  // namespace custash::checkers
