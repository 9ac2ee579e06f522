// SPDX-License-Identifier: MIT
// A kernel as the simulated driver is told of it: adds its index to each element.
#include "tests/sim/kernel_abi.h"

namespace {

void add_index(const custash_sim_launch* launch) {
  unsigned* data = *static_cast<unsigned**>(launch->args[0]);
  const unsigned n = *static_cast<unsigned*>(launch->args[1]);
  for (unsigned i = 0; i < n && i < launch->grid[0] * launch->block[0]; ++i)
    data[i] += i;
}

const size_t kAddIndexArgs[] = {sizeof(void*), sizeof(unsigned), 0};

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"add_index", kAddIndexArgs, add_index, nullptr},
    {nullptr, nullptr, nullptr, nullptr},
};
