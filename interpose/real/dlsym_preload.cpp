// SPDX-License-Identifier: MIT
// The preload library's half of dlsym.cpp: the dlsym behind ours is libc's, found by version
// at the first look-up (other preloaded libraries look names up before our constructor has
// run).
#include "interpose/api/custash.h"
#include "interpose/real/dlsym.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>

namespace custash {

Dlsym* next_dlsym() noexcept {
  return libc_dlsym();
}

// The program's symbols come before those of preloaded libraries. By a handle: RTLD_DEFAULT
// would find ours first where the library is linked with -Bsymbolic.
bool another_copy_serves() noexcept {
  Dlsym* const look_up = real_dlsym();
  void* const program = look_up == nullptr ? nullptr : dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return false;
  void* const first = look_up(program, "custash_version");
  dlclose(program);
  return first != nullptr && first != reinterpret_cast<void*>(&custash_version);
}

bool stands_in_front() noexcept {
  return is_first_dlsym();
}

namespace {

// The folder of the file that this library was loaded from, as the kernel knows it: the
// loader's name for it may be relative, or a link.
std::string own_folder() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return "";
  const auto here = reinterpret_cast<std::uintptr_t>(&custash_version);
  std::string folder;
  char* line = nullptr;
  std::size_t room = 0;
  while (folder.empty() && ::getline(&line, &room, maps) > 0) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const std::string_view text = line;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
    if (here < begin || here >= end || text.find('/') == std::string_view::npos) continue;
    folder = text.substr(text.find('/'), text.rfind('/') + 1 - text.find('/'));
  }
  std::free(line);
  (void)std::fclose(maps);
  return folder;
}

// By its whole path, so that another directory's is never found.
void* open_in(const std::string& folder) {
  return folder.starts_with('/')
             ? dlopen((folder + "libcustash-check.so").c_str(), RTLD_NOW | RTLD_LOCAL)
             : nullptr;
}

}  // namespace

void* find_check_library(const char* function, std::string* why) {
  const std::string folder = own_folder();
  void* library = open_in(folder);
  if (const char* const said = dlerror()) *why = said;
  Dl_info here{};
  if (library == nullptr &&
      dladdr(reinterpret_cast<const void*>(&custash_version), &here) != 0) {
    const std::string_view name = here.dli_fname;  // perhaps a link in another folder
    library = open_in(std::string(name.substr(0, name.rfind('/') + 1)));
    if (const char* const said = dlerror()) *why = said;
  }
  if (library == nullptr) {
    if (why->empty()) *why = "libcustash-check.so is not found";
    return nullptr;
  }
  void* const found = real_dlsym()(library, function);
  if (found != nullptr) return found;
  dlerror();  // the program does not see it
  const bool is_older = real_dlsym()(library, "custash_open_checks") != nullptr;
  *why = is_older ? "libcustash-check is of another build of custash"
                  : "libcustash-check.so is no library of custash";
  dlerror();
  dlclose(library);
  return nullptr;
}

}  // namespace custash
