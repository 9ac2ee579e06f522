// SPDX-License-Identifier: MIT
#include "interpose/real/loaded.hpp"

#include <climits>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace custash {
namespace {

struct FileName {
  const char* beginning;
  char path[PATH_MAX];
};

int note_library(dl_phdr_info* info, std::size_t, void* out) {
  auto& name = *static_cast<FileName*>(out);
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const file = slash == nullptr ? info->dlpi_name : slash + 1;
  if (std::strncmp(file, name.beginning, std::strlen(name.beginning)) != 0) return 0;
  if (std::strlen(info->dlpi_name) >= sizeof name.path) return 0;
  std::strcpy(name.path, info->dlpi_name);
  return 1;
}

}  // namespace

void* open_loaded(const char* beginning) noexcept {
  FileName name{beginning, ""};
  if (dl_iterate_phdr(note_library, &name) == 0) return nullptr;
  return dlopen(name.path, RTLD_LAZY | RTLD_NOLOAD);
}

void* open_owner(const void* address) noexcept {
  dl_find_object found{};
  if (_dl_find_object(const_cast<void*>(address), &found) != 0) return nullptr;
  return dlopen(found.dlfo_link_map->l_name, RTLD_LAZY | RTLD_NOLOAD);  // "": the program
}

}  // namespace custash
