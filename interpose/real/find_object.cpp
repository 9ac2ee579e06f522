// SPDX-License-Identifier: MIT
// _dl_find_object for the unwinder that is linked in. GCC's unwinder asks libc for it, which
// has it from glibc 2.35 on. The linker takes this one in its place, so that older systems load
// us. It asks libc's where there is one, because that takes no lock.
//
// Linked into the library and the programs, not into libcustash.a. Its state is libc's
// function.
#include "interpose/real/loaded.hpp"

#include <algorithm>
#include <atomic>

#ifdef DLFO_EH_SEGMENT_TYPE

namespace custash {
namespace {

using FindObject = int(void*, dl_find_object*);
// Order: none. It is stored before C++ starts, hence before the process has a second thread.
constinit std::atomic<FindObject*> libc_find_object{nullptr};

// Before C++ starts, and not while an exception is thrown: the look-up takes the lock that a
// thread holds while it runs constructors.
__attribute__((constructor(101))) void look_up_find_object() {
  void* const found = dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35");
  if (found == nullptr) dlerror();  // a message that is not the program's
  libc_find_object = reinterpret_cast<FindObject*>(found);
}

struct ObjectSearch {
  const void* address;
  dl_find_object* result;
};

int note_object(dl_phdr_info* object, std::size_t, void* data) {
  const auto& search = *static_cast<const ObjectSearch*>(data);
  if (!holds(*object, search.address)) return 0;
  dl_find_object found{};
  ElfW(Addr) begin = UINTPTR_MAX;
  ElfW(Addr) end = 0;
  for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const ElfW(Addr) start = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) begin = std::min(begin, start);
    if (header.p_type == PT_LOAD) end = std::max(end, start + header.p_memsz);
    // NOLINTNEXTLINE: where the loader has put it
    if (header.p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = reinterpret_cast<void*>(start);
  }
  found.dlfo_map_start = reinterpret_cast<void*>(begin);  // NOLINT: likewise
  found.dlfo_map_end = reinterpret_cast<void*>(end);      // NOLINT
  *search.result = found;
  return 1;
}

}  // namespace

int find_object_by_headers(const void* address, dl_find_object* result) noexcept {
  ObjectSearch search{address, result};
  return dl_iterate_phdr(note_object, &search) == 1 ? 0 : -1;
}

}  // namespace custash

// NOLINTNEXTLINE: the name that the unwinder asks for
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(
    void* address, dl_find_object* result) noexcept {
  auto* const libc = custash::libc_find_object.load(std::memory_order_relaxed);
  return libc != nullptr ? libc(address, result)
                         : custash::find_object_by_headers(address, result);
}

#endif
