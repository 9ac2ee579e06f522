// SPDX-License-Identifier: MIT
#include "interpose/real/dlsym.hpp"

#include <dlfcn.h>

extern "C" {
void __wrap_dlsym();  // NOLINT: ours in dlsym.S, by its local name
constinit custash::Dlsym* custash_real_dlsym = nullptr;
}

namespace custash {

Dlsym* libc_dlsym() noexcept {
  // By version, because an unversioned look-up would find us. The first is the processor's
  // oldest, which libc keeps. So no look-up fails: for its message the loader would call
  // malloc, and another library's malloc may be what called us. 2.34 is where libdl moved into
  // libc.
#if defined(__aarch64__)
  constexpr const char* kOldest = "GLIBC_2.17";
#else
  constexpr const char* kOldest = "GLIBC_2.2.5";
#endif
  for (const char* version : {kOldest, "GLIBC_2.34"}) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version))
      return reinterpret_cast<Dlsym*>(found);
  }
  return nullptr;
}

Dlsym* real_dlsym() noexcept {
  Dlsym* found = __atomic_load_n(&custash_real_dlsym, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = next_dlsym();
    __atomic_store_n(&custash_real_dlsym, found, __ATOMIC_RELAXED);
  }
  return found;
}

// In the program's scope only libc and preloaded libraries define dlsym; libraries opened later
// come after libc. By a handle, because RTLD_DEFAULT would search from our own scope.
bool is_first_dlsym() noexcept {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return false;
  const void* const first = real_dlsym()(program, "dlsym");
  dlclose(program);
  return first == reinterpret_cast<const void*>(&__wrap_dlsym);
}

}  // namespace custash
