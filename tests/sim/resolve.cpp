// SPDX-License-Identifier: MIT
// The table of entries, and the two ways to ask for them: by exported name (resolve) and by
// base name, version and flags (cuGetProcAddress, both ABIs).
#include "tests/sim/entry.hpp"

#include <cstdio>
#include <cstring>
#include <mutex>

#define SIM_DECLARE_One(function, label) SIM_EXPORT void function() __asm__(label);
#define SIM_DECLARE_Ptsz(function, label) \
  SIM_DECLARE_One(function, label) SIM_DECLARE_One(function##_ptsz, label "_ptsz")
#define SIM_DECLARE_Ptds(function, label) \
  SIM_DECLARE_One(function, label) SIM_DECLARE_One(function##_ptds, label "_ptds")
#define POINT(base, symbol, since, doors, failure) SIM_DECLARE_##doors(decl_##symbol, #symbol)
#define ALIAS(base, symbol, since)
#include "tests/sim/entry_points.def"

namespace custash::sim {

namespace {

constexpr bool Can = true;
constexpr bool Sure = false;

void* address(void (*fn)()) {
  return reinterpret_cast<void*>(fn);
}

struct Alias {
  const char* base;
  const char* symbol;
  int since;
};

constexpr Alias kAliases[] = {
#define POINT(base, symbol, since, doors, failure)
#define ALIAS(base, symbol, since) {#base, #symbol, since},
#include "tests/sim/entry_points.def"
};

}  // namespace

#define SIM_ROW(base, name, since, per_thread, failure, function) \
  {base, name, since, per_thread, failure, address(function)},
#define SIM_ROW_OF_THREAD(base, name, since, failure, function) \
  SIM_ROW(base, name, since < 7000 ? 7000 : since, true, failure, function)
#define SIM_ROW_One(base, name, since, failure, function) \
  SIM_ROW(base, name, since, false, failure, function)
#define SIM_ROW_Ptsz(base, name, since, failure, function) \
  SIM_ROW_One(base, name, since, failure, function)        \
      SIM_ROW_OF_THREAD(base, name "_ptsz", since, failure, function##_ptsz)
#define SIM_ROW_Ptds(base, name, since, failure, function) \
  SIM_ROW_One(base, name, since, failure, function)        \
      SIM_ROW_OF_THREAD(base, name "_ptds", since, failure, function##_ptds)

const SymbolInfo kSymbolTable[kSymbols] = {
#define POINT(base, symbol, since, doors, failure) \
  SIM_ROW_##doors(#base, #symbol, since, failure, decl_##symbol)
#define ALIAS(base, symbol, since)
#include "tests/sim/entry_points.def"
};

// Entries that the options take away.
bool switched_off(const World& w, const char* symbol) {
  if (!w.options.context_events && (std::strcmp(symbol, "cuCtxRecordEvent") == 0 ||
                                    std::strcmp(symbol, "cuCtxWaitEvent") == 0))
    return true;
  if (w.options.vmm) return false;
  static constexpr const char* kVmm[] = {"cuMemAddressReserve",
                                         "cuMemAddressFree",
                                         "cuMemCreate",
                                         "cuMemRelease",
                                         "cuMemMap",
                                         "cuMemUnmap",
                                         "cuMemSetAccess",
                                         "cuMemGetAccess",
                                         "cuMemGetAllocationGranularity"};
  for (const char* name : kVmm)
    if (std::strcmp(symbol, name) == 0) return true;
  return false;
}

void* resolve(const char* symbol) {
  const Guard guard;
  for (const SymbolInfo& info : kSymbolTable)
    if (std::strcmp(info.name, symbol) == 0)
      return switched_off(*guard, symbol) ? nullptr : info.address;
  return nullptr;
}

namespace {

constexpr int kDriverVersion = 13000;
constexpr cuuint64_t kPerThread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

struct Answer {
  void* address = nullptr;
  bool known = false;  // the name exists, if only for newer versions
  int since = -1;
};

void consider(const World& w,
              const SymbolInfo& info,
              int since,
              int version,
              bool per_thread,
              Answer* answer) {
  if (switched_off(w, info.name) || (info.per_thread && !per_thread)) return;
  answer->known = true;
  if (since > version) return;
  // A later meaning of the name wins; of one meaning, the per-thread form where it was asked
  // for.
  const int rank = since * 2 + (info.per_thread ? 1 : 0);
  if (rank <= answer->since) return;
  answer->since = rank;
  answer->address = info.address;
}

Answer look_up(const World& w, const char* name, int version, bool per_thread) {
  Answer answer;
  const SymbolInfo* plain = nullptr;
  for (const SymbolInfo& info : kSymbolTable) {
    if (!info.per_thread) plain = &info;
    if (std::strcmp(info.base, name) == 0)
      consider(w, info, plain->since, version, per_thread, &answer);
    for (const Alias& alias : kAliases)
      if (std::strcmp(alias.base, name) == 0 && std::strcmp(alias.symbol, info.name) == 0)
        consider(w, info, alias.since, version, per_thread, &answer);
  }
  return answer;
}

CUresult get_proc_address(
    Frame& f, const char* name, void** out, int version, cuuint64_t flags, int* status) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (name[0] == '\0') {  // the runtime's probe
    if (out != nullptr) *out = nullptr;
    if (status != nullptr) *status = 1;
    return CUDA_SUCCESS;
  }
  if (out == nullptr || version > kDriverVersion || flags > 2) return CUDA_ERROR_INVALID_VALUE;
  const Answer answer = look_up(f.world, name, version, (flags & kPerThread) != 0);
  *out = answer.address;
  if (status != nullptr) {
    *status = 0;  // success
    if (answer.address == nullptr)
      *status = answer.known ? 2 : 1;  // too old a version, not found
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuGetProcAddress,
             Nothing,
             (const char* name, void** out, int version, cuuint64_t flags),
             get_proc_address(f, name, out, version, flags, nullptr))
SIM_ENTRY_IS(cuGetProcAddress_v2,
             Nothing,
             (const char* name, void** out, int version, cuuint64_t flags, int* status),
             get_proc_address(f, name, out, version, flags, status))
SIM_ENTRY_IS(cuDriverGetVersion, Nothing, (int* out), answer_with(out, kDriverVersion))

// Private tables: none. NVIDIA's own runtime cannot live on this driver, and fails for its user
// with riddles.
SIM_ENTRY(cuGetExportTable, (const void** out, const CUuuid* id)) {
  return SIM_CALL(cuGetExportTable, Nothing) {
    static std::once_flag once;
    std::call_once(once, [] {
      std::fputs(
          "custash: the simulated driver cannot run NVIDIA's CUDA runtime. Build the program with nvcc -cudart "
          "shared, and put tests/sim/cudart on LD_LIBRARY_PATH, too.\n",
          stderr);
    });
    if (out != nullptr) *out = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  });
}

}  // namespace custash::sim
