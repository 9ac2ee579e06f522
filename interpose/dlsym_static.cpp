// SPDX-License-Identifier: MIT
// The static library's half of resolve.cpp: the program is linked with -Wl,--wrap=dlsym, so its
// calls (static cudart's look-ups among them) come to __wrap_dlsym in dlsym.S, and __real_dlsym is
// libc's. The dlsym of the rest of the process is left alone.
#include "interpose/resolve.hpp"

namespace custash {

bool stands_in_front() noexcept {
  return true;
}

}  // namespace custash

extern "C" {
void* __real_dlsym(void* handle, const char* name);  // NOLINT: the linker's name
constinit custash::Dlsym* custash_real_dlsym = __real_dlsym;
}
