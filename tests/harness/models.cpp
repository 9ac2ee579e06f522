// SPDX-License-Identifier: MIT
// The kernels as the simulator runs them (tests/sim/kernel_abi.h): the very arithmetic of
// work.hpp, and what each touches, for the race detector.
#include "tests/harness/work.hpp"
#include "tests/sim/kernel_abi.h"

#include <type_traits>

using namespace custash::harness;

namespace {

template <typename Work>
const Work& work_of(const custash_sim_launch* launch) {
  return *static_cast<const Work*>(launch->args[0]);
}

template <typename Work>
constexpr size_t kSizes[] = {sizeof(Work), 0};

template <typename Work>
void run(const custash_sim_launch* launch) {
  const Work& work = work_of<Work>(launch);
  for (std::uint64_t i = 0; i < work.count(); ++i)
    work(i);
}

template <typename Work>
size_t accesses(const custash_sim_launch* launch, custash_sim_access* out, size_t room) {
  size_t count = 0;
  work_of<Work>(launch).touches([&](void* memory, std::uint64_t bytes, bool write) {
    if (bytes != 0 && count < room)
      out[count++] = {reinterpret_cast<uint64_t>(memory), bytes, write};
  });
  return count;
}

// Memory at 1.5 TB/s; a product's arithmetic is not counted.
template <typename Work>
uint64_t nanoseconds(const custash_sim_launch* launch) {
  if constexpr (std::is_same_v<Work, Spin>) return work_of<Spin>(launch).nanoseconds;
  uint64_t bytes = 0;
  work_of<Work>(launch).touches([&](void*, std::uint64_t more, bool) { bytes += more; });
  return 2000 + bytes / 1500;
}

#define HARNESS_MODEL(Work) \
  {"harness_" #Work, kSizes<Work>, run<Work>, nanoseconds<Work>, accesses<Work>},

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    HARNESS_WORKS(HARNESS_MODEL){nullptr, nullptr, nullptr, nullptr, nullptr},
};
