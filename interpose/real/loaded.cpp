// SPDX-License-Identifier: MIT

#include "interpose/real/loaded.hpp"

#include <climits>
#include <cstdint>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace custash {
namespace {

struct LibrarySearch {
  const char* beginning;  // of the file's name; or null, and an address
  const void* address;
  std::size_t skip;  // this many are skipped
  std::size_t passed = 0;
  char path[PATH_MAX] = "";
};

bool is_file_named(const dl_phdr_info& object, const char* beginning) {
  const char* const slash = std::strrchr(object.dlpi_name, '/');
  const char* const file = slash == nullptr ? object.dlpi_name : slash + 1;
  return std::strncmp(file, beginning, std::strlen(beginning)) == 0;
}

int note_library(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<LibrarySearch*>(data);
  const bool found = search.beginning == nullptr ? holds(*object, search.address)
                                                 : is_file_named(*object, search.beginning);
  if (!found || std::strlen(object->dlpi_name) >= sizeof search.path) return 0;
  if (search.passed++ < search.skip) return 0;
  std::strcpy(search.path, object->dlpi_name);
  return 1;
}

bool find_library(LibrarySearch* search) {
  return dl_iterate_phdr(note_library, search) != 0;
}

void* open_found(const LibrarySearch& search) {
  return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);  // "": the program
}

}  // namespace

void* open_loaded(const char* beginning, bool (*accepts)(void* handle)) noexcept {
  for (std::size_t skip = 0;; ++skip) {
    LibrarySearch search{beginning, nullptr, skip};
    if (!find_library(&search)) return nullptr;
    void* const handle = open_found(search);
    if (handle == nullptr) continue;  // it was unloaded meanwhile
    if (accepts(handle)) return handle;
    dlclose(handle);
  }
}

void* open_owner(const void* address) noexcept {
  LibrarySearch search{nullptr, address, 0};
  return find_library(&search) ? open_found(search) : nullptr;
}

std::size_t how_many_loaded(const char* beginning) noexcept {
  LibrarySearch search{beginning, nullptr, SIZE_MAX};
  (void)find_library(&search);
  return search.passed;
}

}  // namespace custash
