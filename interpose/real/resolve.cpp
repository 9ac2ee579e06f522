// SPDX-License-Identifier: MIT
#include "interpose/real/resolve.hpp"

#include "interpose/real/engines.hpp"
#include "interpose/real/real_driver.hpp"

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

void* custash_resolve(void* handle, const char* name) noexcept {
  custash::Dlsym* const real = custash::real_dlsym();
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) return nullptr;
  if (name == nullptr) return nullptr;
  const bool driver = name[0] == 'c' && name[1] == 'u';
  if (!driver && (name[0] != 'N' || name[1] != 'v') && (name[0] != 'o' || name[1] != 'p'))
    return nullptr;
  // For an ordinary handle the caller does not matter. The stub repeats a failed look-up, so
  // that dlerror has the program's own message.
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  void* const engine = custash::engines::wrapper_of(name, found);
  return engine != nullptr || !driver ? engine : custash::real::wrapper_of(found);
}
