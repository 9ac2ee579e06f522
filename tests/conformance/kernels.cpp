// SPDX-License-Identifier: MIT
// What the cases' kernels do on the simulator (tests/sim/kernel_abi.h).
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

// The simulated driver's texture is the address of its memory.
void fetch(const custash_sim_launch* launch) {
  auto* const out = argument<unsigned*>(launch, 1);
  const auto width = argument<unsigned>(launch, 2);
  for (unsigned y = 0; y < launch->grid[1]; ++y)
    for (unsigned x = 0; x < width; ++x)
      out[y * width + x] = reinterpret_cast<const unsigned*>(
          argument<char*>(launch, 0) + size_t{y} * argument<unsigned>(launch, 3))[x];
}

size_t fetch_touches(const custash_sim_launch* launch, custash_sim_access* out, size_t room) {
  const auto width = argument<unsigned>(launch, 2);
  const uint64_t rows = launch->grid[1];
  if (room > 1) {
    out[0] = {argument<uint64_t>(launch, 0),
              (rows - 1) * argument<unsigned>(launch, 3) + 4 * width,
              0};
    out[1] = {argument<uint64_t>(launch, 1), 4 * rows * width, 1};
  }
  return 2;
}

constexpr size_t kFetchArguments[] = {
    sizeof(void*), sizeof(void*), sizeof(unsigned), sizeof(unsigned), 0};

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"conformance_write", kArguments, write, nullptr, touches},
    {"conformance_fetch", kFetchArguments, fetch, nullptr, fetch_touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
