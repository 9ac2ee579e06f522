// SPDX-License-Identifier: MIT
// The kernels of tests/process/streams on a GPU. Each ends at once.
#include "tests/process/parameters.hpp"

struct Large {
  void* words[512];
};

extern "C" __global__ void one(char* block) {
  block[0] = 1;
}

extern "C" __global__ void touch(char* block, char*) {
  block[0] = 1;
}

// Its words may be left over from anything, so it uses none of them.
extern "C" __global__ void by_value(unsigned, ByValue) {
}

extern "C" __global__ void large(Large) {
}
