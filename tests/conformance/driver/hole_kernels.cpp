// SPDX-License-Identifier: MIT
// What the kernel of holes.cpp does, for the simulated driver: it writes a word where it is
// told.
#include "tests/sim/kernel_abi.h"

namespace {

constexpr size_t kArguments[] = {sizeof(uint64_t), 0};

size_t touches(const custash_sim_launch* launch, custash_sim_access* out, size_t room) {
  if (room > 0) *out = {*static_cast<uint64_t*>(launch->args[0]), 4, 1};
  return 1;
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"writes", kArguments, nullptr, nullptr, touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
