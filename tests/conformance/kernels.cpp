// SPDX-License-Identifier: MIT
// What the cases' kernels do on the simulator (tests/sim/kernel_ranges.hpp).
#include "tests/sim/kernel_ranges.hpp"

namespace {

using namespace custash_kernels;

void write(const Launch* launch) {
  auto* const words = argument<unsigned*>(launch, 0);
  const auto count = argument<unsigned long long>(launch, 1);
  for (unsigned long long i = 0; i < count; ++i)
    words[i] = argument<unsigned>(launch, 2);
}

size_t touches(const Launch* launch, Access* out, size_t room) {
  const auto words = static_cast<long>(argument<unsigned long long>(launch, 1));
  return give({writes(argument<unsigned*>(launch, 0), 0, words)}, out, room);
}

// The simulated driver's texture is the address of its memory.
void fetch(const Launch* launch) {
  auto* const out = argument<unsigned*>(launch, 1);
  const auto width = argument<unsigned>(launch, 2);
  for (unsigned y = 0; y < launch->grid[1]; ++y)
    for (unsigned x = 0; x < width; ++x)
      out[y * width + x] = reinterpret_cast<const unsigned*>(
          argument<char*>(launch, 0) + size_t{y} * argument<unsigned>(launch, 3))[x];
}

size_t fetch_touches(const Launch* launch, Access* out, size_t room) {
  const long width = argument<unsigned>(launch, 2);
  const long rows = launch->grid[1];
  const long last = (rows - 1) * argument<unsigned>(launch, 3);
  return give({reads(argument<char*>(launch, 0), 0, last + 4 * width),
               writes(argument<unsigned*>(launch, 1), 0, rows * width)},
              out,
              room);
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"conformance_write", kArgs<void*, unsigned long long, unsigned>, write, nullptr, touches},
    {"conformance_fetch",
     kArgs<void*, void*, unsigned, unsigned>,
     fetch,
     nullptr,
     fetch_touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
