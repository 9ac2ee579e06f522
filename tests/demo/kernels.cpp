// SPDX-License-Identifier: MIT
// What the sample programs' kernels do, for the simulated driver (tests/sim/kernel_abi.h).
// Device addresses are host addresses there, so the bodies work on the memory itself.
#include "tests/sim/kernel_abi.h"

namespace {

using Word = unsigned;
using Count = unsigned long long;

template <class T>
T argument(const custash_sim_launch* launch, int index) {
  return *static_cast<T*>(launch->args[index]);
}

// churn_fill(unsigned*, unsigned long long, unsigned)
void churn_fill(const custash_sim_launch* launch) {
  Word* words = argument<Word*>(launch, 0);
  const Count count = argument<Count>(launch, 1);
  const Word seed = argument<Word>(launch, 2);
  for (Count i = 0; i < count; ++i)
    words[i] = seed + static_cast<Word>(i) * 2654435761U;
}

constexpr size_t kFillArguments[] = {sizeof(Word*), sizeof(Count), sizeof(Word), 0};

// A small kernel's usual time on a large GPU.
uint64_t fill_nanoseconds(const custash_sim_launch*) {
  return 3000;
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"_Z10churn_fillPjyj", kFillArguments, churn_fill, fill_nanoseconds},
    {nullptr, nullptr, nullptr, nullptr},
};
