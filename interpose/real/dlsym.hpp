// SPDX-License-Identifier: MIT
// The real dlsym, which stands behind ours. No state but its address; takes no lock, allocates
// nothing, logs nothing.
#pragma once

#include <string>

namespace custash {

using Dlsym = void*(void* handle, const char* name);

// The dlsym behind ours, found on first use.
Dlsym* real_dlsym() noexcept;

// How this form of the library finds it (dlsym_preload.cpp, dlsym_static.cpp).
Dlsym* next_dlsym() noexcept;
Dlsym* libc_dlsym() noexcept;

// Whether the program's calls reach our hooks: they do where the library was there when the
// program started. If it was opened later with dlopen, only its C API is reached, and
// submissions go unseen.
bool stands_in_front() noexcept;
// Whether the program has custash linked in, so that this preloaded copy must do nothing.
bool another_copy_serves() noexcept;
// The function of libcustash-check by this name, where this form of the library has it: in
// the file beside libcustash.so, or linked into the program. Null: `why`.
void* find_check_library(const char* function, std::string* why);
// Whether a library that the program opens would find our dlsym.
bool is_first_dlsym() noexcept;

}  // namespace custash

extern "C" {

// The address to which the stub in dlsym.S jumps when custash_resolve returns null. Order:
// none, all threads store the same.
extern custash::Dlsym* custash_real_dlsym;

// The wrapper for this look-up (hooks/resolve.cpp). Null: jump to the real dlsym, with the
// caller's return address in place, because RTLD_NEXT, RTLD_DEFAULT and namespaces depend on
// it.
void* custash_resolve(void* handle, const char* name) noexcept;
}
