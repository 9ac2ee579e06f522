// SPDX-License-Identifier: MIT
// Copy rows: the rows of memory that a copy of two or three dimensions touches on each side.
// Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstddef>

#include <cuda.h>

namespace custash::copy_rows {

// The other rows lie between these two. The gaps between rows are not touched.
struct Rows {
  Address first = 0;
  Address last = 0;
  Bytes bytes = 0;  // of each; 0: the copy touches no memory there, or the driver refuses it
};

// One side of a copy, in the units of CUDA_MEMCPY3D.
struct Side {
  CUmemorytype type = CU_MEMORYTYPE_ARRAY;
  const void* host = nullptr;
  Address device = 0;
  Bytes x = 0;
  std::size_t y = 0;
  std::size_t z = 0;
  Bytes pitch = 0;
  std::size_t height = 0;  // rows of a slice
};

inline Rows rows_of(const Side& side, Bytes width, std::size_t height, std::size_t depth) {
  const bool is_array = side.type == CU_MEMORYTYPE_ARRAY;
  if (is_array || width == 0 || height == 0 || depth == 0) return {};
  if ((height > 1 || depth > 1) && side.pitch < side.x + width) return {};
  if (depth > 1 && side.height < side.y + height) return {};
  const Address base =
      side.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<Address>(side.host) : side.device;
  const Address first = base + (side.z * side.height + side.y) * side.pitch + side.x;
  return {first, first + ((depth - 1) * side.height + height - 1) * side.pitch, width};
}

// CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER alike.
template <typename Copy>
Rows rows_of(const Side& side, const Copy& copy) {
  std::size_t depth = 1;
  if constexpr (requires { copy.Depth; }) depth = copy.Depth;
  return rows_of(side, copy.WidthInBytes, copy.Height, depth);
}

template <typename Copy>
Rows target(const Copy& copy) {
  Side side{copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstXInBytes, copy.dstY};
  side.pitch = copy.dstPitch;
  if constexpr (requires { copy.Depth; }) {
    side.z = copy.dstZ;
    side.height = copy.dstHeight;
  }
  return rows_of(side, copy);
}

template <typename Copy>
Rows source(const Copy& copy) {
  Side side{copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcXInBytes, copy.srcY};
  side.pitch = copy.srcPitch;
  if constexpr (requires { copy.Depth; }) {
    side.z = copy.srcZ;
    side.height = copy.srcHeight;
  }
  return rows_of(side, copy);
}

}  // namespace custash::copy_rows
