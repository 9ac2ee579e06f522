// SPDX-License-Identifier: MIT
// What the kernels of museum.cu touch, for the simulated driver.
#include "tests/sim/kernel_ranges.hpp"

namespace {

using namespace custash_kernels;

struct Slice {
  int rows;
  char* block;
  long offset, bytes;
};

size_t write_touches(const Launch* launch, Access* out, size_t room) {
  const long first = argument<long>(launch, 1);
  const long end = first + argument<long>(launch, 2);
  return give({writes(argument<char*>(launch, 0), first, end)}, out, room);
}

size_t read_touches(const Launch* launch, Access* out, size_t room) {
  const size_t count = write_touches(launch, out, room);
  if (count != 0) out->write = 0;
  return count;
}

size_t slice_touches(const Launch* launch, Access* out, size_t room) {
  const auto slice = argument<Slice>(launch, 0);
  return give({writes(slice.block, slice.offset, slice.offset + slice.bytes)}, out, room);
}

// Asked at the launch. By then the copy has put the address there.
size_t hidden_touches(const Launch* launch, Access* out, size_t room) {
  char* const block = *argument<char**>(launch, 0);
  const long offset = argument<long>(launch, 1);
  return give({writes(block, offset, offset + 1)}, out, room);
}

}  // namespace

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    writer<write_touches, char*, long, long>("museum_write"),
    {"museum_read", kArgs<char*, long, long, int*>, nullptr, nullptr, read_touches},
    writer<slice_touches, Slice>("museum_slice"),
    {"museum_hidden", kArgs<char**, long>, nullptr, nullptr, hidden_touches},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
