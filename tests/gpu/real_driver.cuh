// SPDX-License-Identifier: MIT
// The driver's own pinned memory, past any library that answers in its place: the entries are
// looked up in libcuda's symbol table itself. For comparing within one process.
#pragma once

#include "check.cuh"

#include <elf.h>
#include <link.h>

namespace gpu {

class RealDriver {
 public:
  RealDriver() { dl_iterate_phdr(look, this); }

  explicit operator bool() const { return alloc_ != nullptr && free_ != nullptr; }

  void* host_alloc(std::size_t bytes) const {
    void* p = nullptr;
    if (const int code = alloc_(&p, bytes, 0); code != 0)
      die("the driver's cuMemHostAlloc", static_cast<cudaError_t>(code), __LINE__);
    return p;
  }

  void free_host(void* p) const {
    if (const int code = free_(p); code != 0)
      die("the driver's cuMemFreeHost", static_cast<cudaError_t>(code), __LINE__);
  }

 private:
  static int look(dl_phdr_info* info, std::size_t, void* self) {
    if (std::strstr(info->dlpi_name, "libcuda.so") != nullptr)
      static_cast<RealDriver*>(self)->read(*info);
    return 0;
  }

  void read(const dl_phdr_info& info) {
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      const auto* entry =
          reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB)
          symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      }
    }
    // The names begin where the symbols end.
    const auto* end = reinterpret_cast<const ElfW(Sym)*>(names);
    for (const ElfW(Sym)* symbol = symbols; symbols != nullptr && symbol + 1 <= end; ++symbol) {
      const char* name = names + symbol->st_name;
      if (!std::strcmp(name, "cuMemHostAlloc")) take(alloc_, info.dlpi_addr + symbol->st_value);
      if (!std::strcmp(name, "cuMemFreeHost")) take(free_, info.dlpi_addr + symbol->st_value);
    }
  }

  template <typename Function>
  static void take(Function*& out, ElfW(Addr) address) {
    out = reinterpret_cast<Function*>(address);
  }

  int (*alloc_)(void**, std::size_t, unsigned) = nullptr;
  int (*free_)(void*) = nullptr;
};

}  // namespace gpu
