// SPDX-License-Identifier: MIT
// The preload library's half of dlsym.cpp: the dlsym behind ours is libc's, found by version
// at the first look-up (other preloaded libraries look names up before our constructor has
// run).
#include "interpose/api/custash.h"
#include "interpose/real/dlsym.hpp"

#include <dlfcn.h>

namespace custash {

Dlsym* next_dlsym() noexcept {
  return libc_dlsym();
}

// The program's symbols come before those of preloaded libraries. By a handle: RTLD_DEFAULT
// would find ours first where the library is linked with -Bsymbolic.
bool another_copy_serves() noexcept {
  Dlsym* const look_up = real_dlsym();
  void* const program = look_up == nullptr ? nullptr : dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return false;
  void* const first = look_up(program, "custash_version");
  dlclose(program);
  return first != nullptr && first != reinterpret_cast<void*>(&custash_version);
}

bool stands_in_front() noexcept {
  return is_first_dlsym();
}

}  // namespace custash
