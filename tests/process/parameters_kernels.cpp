// SPDX-License-Identifier: MIT
// The kernels of parameters.cpp, as the simulated driver is told of them.
#include "tests/process/parameters.hpp"
#include "tests/sim/kernel_abi.h"

#include <cstdint>
#include <cstring>

namespace {

uint64_t hundred_ms(const custash_sim_launch*) {
  return 100'000'000;
}

uint64_t three_hundred_ms(const custash_sim_launch*) {
  return 300'000'000;
}

uint64_t a_second(const custash_sim_launch*) {
  return 1'000'000'000;
}

template <typename T>
T argument(const custash_sim_launch* launch, int index) {
  T value;
  std::memcpy(&value, launch->args[index], sizeof value);
  return value;
}

void fill(const custash_sim_launch* launch) {
  std::memset(argument<void*>(launch, 0), kLate, argument<unsigned>(launch, 1));
}

size_t first_argument(const custash_sim_launch* launch, custash_sim_access* out, size_t) {
  *out = {reinterpret_cast<uint64_t>(argument<void*>(launch, 0)), 8, 1};
  return 1;
}

void nothing(const custash_sim_launch*) {
}

const size_t kFillArgs[] = {sizeof(void*), sizeof(unsigned), 0};
const size_t kOneArgs[] = {sizeof(void*), 0};
const size_t kTwoArgs[] = {sizeof(void*), sizeof(void*), 0};
const size_t kStructArgs[] = {sizeof(unsigned), sizeof(ByValue), 0};
const size_t kNumberArgs[] = {sizeof(unsigned), sizeof(unsigned), 0};
const size_t kLargeArgs[] = {4096, 0};
const size_t kStruct256Args[] = {256, 0};

// So many pointers.
template <size_t kCount>
struct Pointers {
  constexpr Pointers() {
    for (size_t i = 0; i < kCount; ++i)
      sizes[i] = sizeof(void*);
  }

  size_t sizes[kCount + 1] = {};
};

constexpr Pointers<8> kPointers8;
constexpr Pointers<32> kPointers32;
constexpr Pointers<512> kPointers512;

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"fill", kFillArgs, fill, three_hundred_ms, nullptr},
    {"serve", kOneArgs, nothing, a_second, nullptr},
    {"one", kOneArgs, nothing, hundred_ms, nullptr},
    {"by_value", kStructArgs, nothing, hundred_ms, nullptr},
    {"numbers", kNumberArgs, nothing, hundred_ms, nullptr},
    {"large", kLargeArgs, nothing, hundred_ms, nullptr},
    {"touch", kTwoArgs, nothing, hundred_ms, first_argument},
    {"struct_256", kStruct256Args, nothing, hundred_ms, nullptr},
    {"pointers_8", kPointers8.sizes, nothing, hundred_ms, nullptr},
    {"pointers_32", kPointers32.sizes, nothing, hundred_ms, nullptr},
    {"pointers_512", kPointers512.sizes, nothing, hundred_ms, nullptr},
    {"undeclared_parameters", nullptr, nothing, hundred_ms, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
