// SPDX-License-Identifier: MIT
// The static library's half of dlsym.cpp. A program shows our dlsym to its libraries, a
// shared runtime among them, and so comes before every preloaded library: the dlsym behind ours
// is theirs, then libc's.
#include "interpose/real/dlsym.hpp"

#include <string_view>

#include <dlfcn.h>

// libc.a's, where the whole program is static; libc.so does not show it.
extern "C" __attribute__((weak)) void* ___dlsym(void* handle, const char* name);  // NOLINT

// libcustash-check.a's, if the program is linked with it.
extern "C" __attribute__((weak)) void custash_open_checks();  // NOLINT

namespace custash {

// Hidden, so that a shared library with custash in it gets its own.
struct CoreTable;
struct ReportLibrary;
struct SleepLibrary;
const ReportLibrary* open_reports(const CoreTable* core);
const SleepLibrary* open_sleep(const CoreTable* core);

Dlsym* next_dlsym() noexcept {
  if (___dlsym != nullptr) return ___dlsym;
  Dlsym* const libc = libc_dlsym();
  return libc == nullptr ? nullptr : reinterpret_cast<Dlsym*>(libc(RTLD_NEXT, "dlsym"));
}

bool another_copy_serves() noexcept {
  return false;
}

bool stands_in_front() noexcept {
  return ___dlsym != nullptr || is_first_dlsym();
}

void* find_check_library(const char* function, std::string* why) {
  if (std::string_view(function) == "custash_open_reports")
    return reinterpret_cast<void*>(open_reports);
  if (std::string_view(function) == "custash_open_sleep")
    return reinterpret_cast<void*>(open_sleep);
  if (custash_open_checks == nullptr)
    *why = "the program is not linked with libcustash-check.a";
  return reinterpret_cast<void*>(custash_open_checks);
}

}  // namespace custash
