// SPDX-License-Identifier: MIT
// The libraries that this process has loaded. No state. dlopen and dlsym take a lock that a
// thread holds while it runs constructors; how_many_loaded() does not.
#pragma once

#include <cstddef>

namespace custash {

// A handle of the first loaded library whose file's name begins so and that `accepts`; null
// where there is none. auditwheel renames what it copies into a wheel:
// libcudart-0a1b2c3d.so.13.
void* open_loaded(const char* beginning, bool (*accepts)(void* handle)) noexcept;

// A handle of the library, or of the program, that this address is in; likewise null.
void* open_owner(const void* address) noexcept;

// Libraries whose file's name begins so.
std::size_t how_many_loaded(const char* beginning) noexcept;

}  // namespace custash
