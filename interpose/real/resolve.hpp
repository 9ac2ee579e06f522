// SPDX-License-Identifier: MIT
// What dlsym and cuGetProcAddress answer. One rule for both: the real resolver is asked first,
// and its answer is replaced only where it is the address of a driver entry of ours. No state
// but the real dlsym's address; takes no lock, allocates nothing, logs nothing.
#pragma once

namespace custash {

using Dlsym = void*(void* handle, const char* name);

// The dlsym behind ours, found on first use.
Dlsym* real_dlsym() noexcept;

// What it is in this form of the library (dlsym_preload.cpp, dlsym_static.cpp).
Dlsym* next_dlsym() noexcept;
Dlsym* libc_dlsym() noexcept;

// Whether the program's calls come to our doors: the library was there when the program
// started. Opened later, it is asked by its own functions alone, and sees nothing of what is
// submitted.
bool stands_in_front() noexcept;
// Whether the program has custash linked in, so that this preloaded copy must do nothing.
bool another_copy_serves() noexcept;
// Whether a library that the program opens would find our dlsym.
bool is_first_dlsym() noexcept;

}  // namespace custash

extern "C" {

// Where the stub in dlsym.S jumps when custash_resolve answers null.
extern custash::Dlsym* custash_real_dlsym;

// The wrapper for this look-up, or null: then the real dlsym is to be jumped to, with its
// caller's return address in place, as RTLD_NEXT, RTLD_DEFAULT and namespaces go by that.
void* custash_resolve(void* handle, const char* name) noexcept;
}
