// SPDX-License-Identifier: MIT
// The answers of dlsym and cuGetProcAddress. One rule for both: custash queries the real
// resolver first, and its answer is replaced only if it is the address of an entry of ours.
// Takes no lock, allocates nothing, logs nothing.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/hooks/engines.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/nvml.hpp"
#include "interpose/real/dlsym.hpp"

#include <string_view>

#include <dlfcn.h>

namespace custash::handlers {
namespace {

constexpr int kNewestKnown = 13050;  // the CUDA version whose entry points are all in the table

// Newer functions may take handles, which custash could not translate.
void note_stranger(const char* name) {
  const std::string_view text = name;
  if (text.starts_with("cuMem") || text.starts_with("cuMulticast") ||
      text.starts_with("cuLogicalEndpoint"))
    handle_table().all_stay();
}

void replace(CUresult result, const char* name, int version, void** out) {
  if (result != CUDA_SUCCESS || out == nullptr || *out == nullptr) return;
  if (void* const ours = real::wrapper_of(*out))
    *out = ours;
  else if (version > kNewestKnown && name != nullptr)
    note_stranger(name);
}

}  // namespace

CUresult get_proc_address(Real<const char*, void**, int, cuuint64_t> real,
                          NullStream,
                          const char* name,
                          void** out,
                          int version,
                          cuuint64_t flags) {
  const CUresult result = real(name, out, version, flags);
  replace(result, name, version, out);
  return result;
}

CUresult get_proc_address_v2(Real<const char*, void**, int, cuuint64_t, void*> real,
                             NullStream,
                             const char* name,
                             void** out,
                             int version,
                             cuuint64_t flags,
                             void* status) {
  const CUresult result = real(name, out, version, flags, status);
  replace(result, name, version, out);
  return result;
}

}  // namespace custash::handlers

void* custash_resolve(void* handle, const char* name) noexcept {
  custash::Dlsym* const real = custash::real_dlsym();
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) return nullptr;
  if (name == nullptr) return nullptr;
  const bool driver = name[0] == 'c' && name[1] == 'u';
  if (!driver && (name[0] != 'N' || name[1] != 'v') && (name[0] != 'n' || name[1] != 'v') &&
      (name[0] != 'o' || name[1] != 'p'))
    return nullptr;
  // For an ordinary handle the caller does not matter. The stub repeats a failed look-up, so
  // that dlerror has the program's own message.
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  if (name[0] == 'n') return custash::nvml::wrapper_of(name, found);
  void* const engine = custash::engines::wrapper_of(name, found);
  return engine != nullptr || !driver ? engine : custash::real::wrapper_of(found);
}
