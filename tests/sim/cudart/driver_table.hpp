// SPDX-License-Identifier: MIT
// Calls: the driver entries that the runtime double uses, found the way NVIDIA's runtime finds
// them, so that whatever hooks those look-ups is exercised by programs that run on the double:
// dlopen("libcuda.so.1"), one dlsym("cuGetProcAddress_v2"), the rest through what that gave.
// An entry that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED. No lock; filled once.
#pragma once

#include <cuda.h>

namespace custash::cudart {

struct Calls {
#define X(member, name, version, per_thread, parameters) CUresult(*member) parameters = nullptr;
#include "tests/sim/cudart/driver_calls.def"
#undef X
};

using GetProcAddress = CUresult (*)(const char*,
                                    void**,
                                    int,
                                    cuuint64_t,
                                    void* /* CUdriverProcAddressQueryResult*, since 12.0 */);

struct DriverTable {
  GetProcAddress get_proc_address = nullptr;
  Calls legacy;      // handle NULL is the legacy default stream
  Calls per_thread;  // handle NULL is the per-thread one: behind the _ptsz and _ptds names
};

// False where there is no driver, or one too old to have cuGetProcAddress_v2.
bool load_driver(DriverTable& table);

}  // namespace custash::cudart
