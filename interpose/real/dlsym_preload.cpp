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

// Opened by its path, so that another directory's is never found.
void* find_check_library(const char* function, std::string* why) {
  constexpr const char* kName = "libcustash-check.so";
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&custash_version), &here) == 0) return nullptr;
  std::string path = here.dli_fname;
  path.erase(path.rfind('/') + 1);  // npos + 1 is 0
  path += kName;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : real_dlsym()(library, function);
  if (found == nullptr) {
    const char* const said = dlerror();  // and so the program does not see it
    *why = said != nullptr ? said : path + " is no library of custash";
  }
  return found;
}

}  // namespace custash
