// SPDX-License-Identifier: MIT
// The preload library's half of resolve.cpp: the real dlsym is found at the first look-up, by
// version (other preloaded libraries look names up before our constructor has run).
#include "interpose/resolve.hpp"

#include <dlfcn.h>

extern "C" void custash_door_dlsym();  // the stub in dlsym.S by its second, local name

namespace custash {

// Of all in the program's scope only libc and libraries preloaded like us define dlsym, and what
// is opened later comes after libc. By a handle: RTLD_DEFAULT would ask with our own scope.
bool stands_in_front() noexcept {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return false;
  const void* const first = real_dlsym()(program, "dlsym");
  dlclose(program);
  return first == reinterpret_cast<const void*>(&custash_door_dlsym);
}

}  // namespace custash

extern "C" {
constinit custash::Dlsym* custash_real_dlsym = nullptr;
}
