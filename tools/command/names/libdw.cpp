// SPDX-License-Identifier: MIT
#include "tools/command/names/libdw.hpp"

#include <dlfcn.h>

namespace custash::names {

const Libdw* libdw() {
  static const Libdw* const found = []() -> const Libdw* {
    void* const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    static Libdw functions;
#define CUSTASH_FIND(name)                                                     \
  functions.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) return nullptr;
    CUSTASH_LIBDW_FUNCTIONS(CUSTASH_FIND)
#undef CUSTASH_FIND
    return &functions;
  }();
  return found;
}

}  // namespace custash::names
