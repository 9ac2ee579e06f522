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

}  // namespace custash
