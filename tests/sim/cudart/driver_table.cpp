// SPDX-License-Identifier: MIT
// The walk through the driver's names. dlopen and dlsym are called plainly, through the PLT: a
// preloaded hook sees them in the shared form, -Wl,--wrap=dlsym in the static one.
#include "tests/sim/cudart/driver_table.hpp"

#include <dlfcn.h>

namespace custash::cudart {
namespace {

constexpr cuuint64_t kLegacyFlags = 0;
constexpr cuuint64_t kPerThreadFlags = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

extern "C" CUresult custash_cudart_missing_entry() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

template <class Function>
void look_up(
    GetProcAddress get, Function& entry, const char* name, int version, cuuint64_t flags) {
  void* found = nullptr;
  if (get(name, &found, version, flags, nullptr) != CUDA_SUCCESS || found == nullptr) {
    found = reinterpret_cast<void*>(&custash_cudart_missing_entry);
  }
  entry = reinterpret_cast<Function>(found);
}

void look_up_all(DriverTable& table) {
  const GetProcAddress get = table.get_proc_address;
#define X(member, name, version, per_thread_version, parameters)                      \
  look_up(get, table.legacy.member, name, version, kLegacyFlags);                     \
  if constexpr (per_thread_version != 0) {                                            \
    look_up(get, table.per_thread.member, name, per_thread_version, kPerThreadFlags); \
  } else {                                                                            \
    table.per_thread.member = table.legacy.member;                                    \
  }
#include "tests/sim/cudart/driver_calls.def"
#undef X
}

}  // namespace

bool load_driver(DriverTable& table) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  void* entry = dlsym(library, "cuGetProcAddress_v2");
  if (entry == nullptr) return false;
  table.get_proc_address = reinterpret_cast<GetProcAddress>(entry);

  // The real runtime asks for the empty name first, and for the resolver itself in both its
  // forms; hooks must cope with all three. The answers are not needed.
  void* probe = nullptr;
  (void)table.get_proc_address("", &probe, 0, 0, nullptr);
  (void)table.get_proc_address("cuGetProcAddress", &probe, 11030, 0, nullptr);
  probe = nullptr;
  if (table.get_proc_address("cuGetProcAddress", &probe, 12000, 0, nullptr) == CUDA_SUCCESS &&
      probe != nullptr) {
    table.get_proc_address = reinterpret_cast<GetProcAddress>(probe);
  }
  look_up_all(table);
  return true;
}

}  // namespace custash::cudart
