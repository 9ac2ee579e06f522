// SPDX-License-Identifier: MIT
// What the kernels of museum.cu touch, for the simulated driver (tests/sim/kernel_abi.h).
#include "tests/sim/kernel_abi.h"

#include <cstring>

namespace {

template <typename T>
T argument(const custash_sim_launch* launch, int index) {
  T value;
  std::memcpy(&value, launch->args[index], sizeof value);
  return value;
}

struct Slice {
  int rows;
  uint64_t block;
  long offset, bytes;
};

custash_sim_access at(uint64_t block, long offset, long bytes, int write) {
  return {block + static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes), write};
}

custash_sim_access written(const custash_sim_launch* launch) {
  return at(
      argument<uint64_t>(launch, 0), argument<long>(launch, 1), argument<long>(launch, 2), 1);
}

custash_sim_access sliced(const custash_sim_launch* launch) {
  const auto slice = argument<Slice>(launch, 0);
  return at(slice.block, slice.offset, slice.bytes, 1);
}

size_t write_touches(const custash_sim_launch* launch, custash_sim_access* out, size_t) {
  *out = written(launch);
  return 1;
}

size_t read_touches(const custash_sim_launch* launch, custash_sim_access* out, size_t) {
  *out = written(launch);
  out->write = 0;
  return 1;
}

size_t slice_touches(const custash_sim_launch* launch, custash_sim_access* out, size_t) {
  *out = sliced(launch);
  return 1;
}

// Asked at the launch. By then the copy has put the address there.
size_t hidden_touches(const custash_sim_launch* launch, custash_sim_access* out, size_t) {
  uint64_t block = 0;
  std::memcpy(&block, argument<void*>(launch, 0), sizeof block);
  *out = at(block, argument<long>(launch, 1), 1, 1);
  return 1;
}

void fill(custash_sim_access access) {
  std::memset(reinterpret_cast<void*>(access.address), 7, access.bytes);
}

void write_body(const custash_sim_launch* launch) {
  fill(written(launch));
}

void slice_body(const custash_sim_launch* launch) {
  fill(sliced(launch));
}

const size_t kWriteArgs[] = {sizeof(void*), sizeof(long), sizeof(long), 0};
const size_t kReadArgs[] = {sizeof(void*), sizeof(long), sizeof(long), sizeof(void*), 0};
const size_t kSliceArgs[] = {sizeof(Slice), 0};
const size_t kHiddenArgs[] = {sizeof(void*), sizeof(long), 0};

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"museum_write", kWriteArgs, write_body, nullptr, write_touches},
    {"museum_read", kReadArgs, nullptr, nullptr, read_touches},
    {"museum_slice", kSliceArgs, slice_body, nullptr, slice_touches},
    {"museum_hidden", kHiddenArgs, nullptr, nullptr, hidden_touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
