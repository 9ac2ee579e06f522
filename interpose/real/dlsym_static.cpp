// SPDX-License-Identifier: MIT
// The static library's half of dlsym.cpp. A program shows our dlsym to its libraries, a
// shared runtime among them, and so comes before every preloaded library: the dlsym behind ours
// is theirs, then libc's.
#include "interpose/real/dlsym.hpp"

#include <dlfcn.h>

// libc.a's, where the whole program is static; libc.so does not show it.
extern "C" __attribute__((weak)) void* ___dlsym(void* handle, const char* name);  // NOLINT

namespace custash {

Dlsym* next_dlsym() noexcept {
  if (___dlsym != nullptr) return ___dlsym;
  Dlsym* const libc = libc_dlsym();
  return libc == nullptr ? nullptr : reinterpret_cast<Dlsym*>(libc(RTLD_NEXT, "dlsym"));
}

bool another_copy_serves() noexcept {
  return false;
}

bool stands_in_front() noexcept {
  return ___dlsym != nullptr || is_first_dlsym();
}

}  // namespace custash
