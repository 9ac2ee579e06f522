// SPDX-License-Identifier: MIT
#include "interpose/real/loaded.hpp"

#include "interpose/real/find_object.hpp"

#include <climits>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace custash {
namespace {

struct LibrarySearch {
  const char* beginning;  // of the file's name; or null, and an address
  const void* address;
  char path[PATH_MAX];
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
  std::strcpy(search.path, object->dlpi_name);
  return 1;
}

void* open_first(LibrarySearch search) {
  if (dl_iterate_phdr(note_library, &search) == 0) return nullptr;
  return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);  // "": the program
}

}  // namespace

void* open_loaded(const char* beginning) noexcept {
  return open_first({beginning, nullptr, ""});
}

void* open_owner(const void* address) noexcept {
  return open_first({nullptr, address, ""});
}

}  // namespace custash
