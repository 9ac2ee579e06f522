// SPDX-License-Identifier: MIT
// The libraries that this process has loaded. No state.
#pragma once

namespace custash {

// A handle of the first loaded library whose file's name begins so; null where there is none.
// auditwheel renames what it copies into a wheel: libcudart-0a1b2c3d.so.13.
void* open_loaded(const char* beginning) noexcept;

// A handle of the library, or of the program, that this address is in; likewise null.
void* open_owner(const void* address) noexcept;

}  // namespace custash
