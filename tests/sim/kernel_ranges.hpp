// SPDX-License-Identifier: MIT
// For libraries of kernels in C++ (kernel_abi.h): arguments by their type, and the ranges that
// a kernel touches.
#pragma once

#include "tests/sim/kernel_abi.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace custash_kernels {

using Launch = custash_sim_launch;
using Access = custash_sim_access;
using Touches = size_t (*)(const Launch*, Access*, size_t);

template <typename T>
T argument(const Launch* launch, int index) {
  T value;
  std::memcpy(&value, launch->args[index], sizeof value);
  return value;
}

// Elements from `first` up to `end`, which is not touched.
template <typename T>
Access range(T* array, long first, long end, int write) {
  return {reinterpret_cast<uint64_t>(array) + static_cast<uint64_t>(first) * sizeof(T),
          static_cast<uint64_t>(end - first) * sizeof(T),
          write};
}

template <typename T>
Access reads(const T* array, long first, long end) {
  return range(array, first, end, 0);
}

template <typename T>
Access writes(T* array, long first, long end) {
  return range(array, first, end, 1);
}

inline size_t give(std::initializer_list<Access> list, Access* out, size_t room) {
  const size_t count = std::min(room, list.size());
  std::copy_n(list.begin(), count, out);
  return count;
}

template <typename... T>
constexpr size_t kArgs[] = {sizeof(T)..., 0};

// A body that fills what the kernel writes, so that damage behind a block can be found there.
template <Touches kTouches>
void fill_written(const Launch* launch) {
  Access list[4];
  const size_t count = kTouches(launch, list, 4);
  for (size_t i = 0; i < count; ++i)
    if (list[i].write != 0)
      std::memset(reinterpret_cast<void*>(list[i].address), 7, list[i].bytes);
}

template <Touches kTouches, typename... T>
constexpr custash_sim_kernel writer(const char* name) {
  return {name, kArgs<T...>, fill_written<kTouches>, nullptr, kTouches};
}

}  // namespace custash_kernels
