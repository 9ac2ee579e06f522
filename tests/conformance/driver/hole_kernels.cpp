// SPDX-License-Identifier: MIT
// What the kernel of holes.cpp does, for the simulated driver: it writes a word where it is
// told.
#include "tests/sim/kernel_ranges.hpp"

namespace {

using namespace custash_kernels;

size_t touches(const Launch* launch, Access* out, size_t room) {
  return give({writes(argument<uint32_t*>(launch, 0), 0, 1)}, out, room);
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"writes", kArgs<uint64_t>, nullptr, nullptr, touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
