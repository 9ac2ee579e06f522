// SPDX-License-Identifier: MIT
// The kernels that are known by name (kernel_abi.h): from the libraries in CUSTASH_SIM_KERNELS
// and from register_kernels. The list has a lock of its own and only grows.
#pragma once

#include "tests/sim/kernel_abi.h"

#include <string>

namespace custash::sim {

// Opens the libraries at its first call. Not to be called with the world's lock held: a
// library's constructors may call the driver.
void load_kernel_libraries();

const custash_sim_kernel* find_kernel(const std::string& name);

// The kernel that custash brings along (digest.cpp).
extern const custash_sim_kernel digest_kernels[];

// As nvcc lays out scalars and structures of pointers.
constexpr std::size_t alignment_of_argument(std::size_t size) {
  return size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
}

}  // namespace custash::sim
