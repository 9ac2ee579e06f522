// SPDX-License-Identifier: MIT
// The loaded objects (the program and its libraries) by an address in them, from their program
// headers. No state. The functions that read the loader's list take a lock of the loader. It is
// not the one that a thread holds while it runs constructors.
#pragma once

#include <cstddef>

#include <dlfcn.h>
#include <link.h>

namespace custash {

// Whether an object that dl_iterate_phdr names is loaded at this address.
inline bool holds(const dl_phdr_info& object, const void* address) noexcept {
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    const ElfW(Addr) start = object.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD &&
        reinterpret_cast<ElfW(Addr)>(address) - start < header.p_memsz)
      return true;
  }
  return false;
}

#ifdef DLFO_EH_SEGMENT_TYPE
// As glibc's _dl_find_object, which came with glibc 2.35. The result has no link map.
int find_object_by_headers(const void* address, dl_find_object* result) noexcept;
#endif

// ---- Libraries: loaded.cpp. dlopen and dlsym take a lock that a thread holds while it runs
// constructors; how_many_loaded() does not.

// A handle of the first loaded library whose file's name begins so and that `accepts`; null
// where there is none. auditwheel renames what it copies into a wheel:
// libcudart-0a1b2c3d.so.13.
void* open_loaded(const char* beginning, bool (*accepts)(void* handle)) noexcept;

// A handle of the library, or of the program, that this address is in; likewise null.
void* open_owner(const void* address) noexcept;

// Libraries whose file's name begins so.
std::size_t how_many_loaded(const char* beginning) noexcept;

}  // namespace custash
