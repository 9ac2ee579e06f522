// SPDX-License-Identifier: MIT
// What the cases' kernel does on the simulator (tests/sim/kernel_abi.h).
#include "tests/sim/kernel_abi.h"

namespace {

template <class T>
T argument(const custash_sim_launch* launch, int index) {
  return *static_cast<T*>(launch->args[index]);
}

void write(const custash_sim_launch* launch) {
  auto* const words = argument<unsigned*>(launch, 0);
  const auto count = argument<unsigned long long>(launch, 1);
  for (unsigned long long i = 0; i < count; ++i)
    words[i] = argument<unsigned>(launch, 2);
}

size_t touches(const custash_sim_launch* launch, custash_sim_access* out, size_t room) {
  if (room > 0) {
    *out = {argument<uint64_t>(launch, 0), 4 * argument<unsigned long long>(launch, 1), 1};
  }
  return 1;
}

constexpr size_t kArguments[] = {
    sizeof(void*), sizeof(unsigned long long), sizeof(unsigned), 0};

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"conformance_write", kArguments, write, nullptr, touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
