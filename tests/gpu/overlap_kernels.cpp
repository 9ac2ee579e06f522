// SPDX-License-Identifier: MIT
// What overlap.cu's kernel does, for the simulated driver (tests/sim/kernel_ranges.hpp): it
// takes the time that it is told.
#include "tests/sim/kernel_ranges.hpp"

namespace {

using namespace custash_kernels;

uint64_t told(const Launch* launch) {
  const auto ns = argument<unsigned long long>(launch, 1);
  return ns == 0 ? 1 : ns;
}

size_t touches(const Launch* launch, Access* out, size_t room) {
  return give({writes(argument<uint32_t*>(launch, 0), 0, 1)}, out, room);
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"overlap_kernel", kArgs<void*, unsigned long long>, nullptr, told, touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
