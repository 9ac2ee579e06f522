// SPDX-License-Identifier: MIT
#include "tools/command/names/debuginfod.hpp"

#include "tools/command/names/libdw.hpp"

#include <chrono>
#include <cstdlib>

#include <dlfcn.h>

namespace custash::names {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kMost = std::chrono::seconds(5);
constexpr const char* kServers = "DEBUGINFOD_URLS";

Clock::duration spent{};
Clock::time_point asked_at;

// libdebuginfod ends a download where this is not 0.
int is_late(debuginfod_client*, long, long) {
  return Clock::now() - asked_at + spent > kMost ? 1 : 0;
}

}  // namespace

void choose_servers(Servers servers) {
  if (servers == Servers::Never) unsetenv(kServers);
  if (std::getenv(kServers) == nullptr) return;
  // If connecting hangs, is_late() is not called; these are seconds of the same limit.
  setenv("DEBUGINFOD_TIMEOUT", "5", 1);
  setenv("DEBUGINFOD_MAXTIME", "5", 1);
}

int find_debuginfo(Dwfl_Module* module,
                   void** userdata,
                   const char* name,
                   Dwarf_Addr base,
                   const char* file,
                   const char* link,
                   GElf_Word checksum,
                   char** found) {
  if (spent >= kMost) unsetenv(kServers);
  asked_at = Clock::now();
  const int result = libdw()->dwfl_standard_find_debuginfo(
      module, userdata, name, base, file, link, checksum, found);
  if (std::getenv(kServers) != nullptr) spent += Clock::now() - asked_at;
  return result;
}

void limit_servers(Dwfl* session) {
  if (std::getenv(kServers) == nullptr) return;
  debuginfod_client* const client = libdw()->dwfl_get_debuginfod_client(session);
  if (client == nullptr) return;  // then it queries no server
  using Watch = int (*)(debuginfod_client*, long, long);
  void* const library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const watch_by = library == nullptr
                             ? nullptr
                             : reinterpret_cast<void (*)(debuginfod_client*, Watch)>(
                                   dlsym(library, "debuginfod_set_progressfn"));
  if (watch_by == nullptr) {
    unsetenv(kServers);
  } else {
    watch_by(client, is_late);
  }
}

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
