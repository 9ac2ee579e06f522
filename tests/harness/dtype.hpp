// SPDX-License-Identifier: MIT
// Element types, and reading and writing one element: what kernels, their models on the
// simulator and the CPU all share.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HARNESS_BOTH __host__ __device__
#else
#define HARNESS_BOTH
#endif

namespace custash::harness {

enum class DType : int { Float32, Int64, Int32, UInt8 };

HARNESS_BOTH constexpr std::uint64_t size_of(DType type) {
  switch (type) {
    case DType::Int64:
      return 8;
    case DType::Float32:
    case DType::Int32:
      return 4;
    case DType::UInt8:
      return 1;
  }
  return 0;
}

HARNESS_BOTH constexpr bool is_floating(DType type) {
  return type == DType::Float32;
}

const char* name_of(DType type);

// ---- elements

template <typename T>
HARNESS_BOTH T& at(void* memory, std::uint64_t i) {
  return static_cast<T*>(memory)[i];
}

template <typename T>
HARNESS_BOTH const T& at(const void* memory, std::uint64_t i) {
  return static_cast<const T*>(memory)[i];
}

HARNESS_BOTH inline std::int64_t load_integer(const void* memory, DType type, std::uint64_t i) {
  switch (type) {
    case DType::Int64:
      return at<std::int64_t>(memory, i);
    case DType::Int32:
      return at<std::int32_t>(memory, i);
    default:
      return at<std::uint8_t>(memory, i);
  }
}

HARNESS_BOTH inline double load(const void* memory, DType type, std::uint64_t i) {
  return is_floating(type) ? at<float>(memory, i)
                           : static_cast<double>(load_integer(memory, type, i));
}

HARNESS_BOTH inline void store_integer(void* memory,
                                       DType type,
                                       std::uint64_t i,
                                       std::int64_t v) {
  switch (type) {
    case DType::Int64:
      at<std::int64_t>(memory, i) = v;
      break;
    case DType::Int32:
      at<std::int32_t>(memory, i) = static_cast<std::int32_t>(v);
      break;
    default:
      at<std::uint8_t>(memory, i) = static_cast<std::uint8_t>(v);
      break;
  }
}

// Towards zero; what does not fit is the nearest that does, and no number is 0: C++ leaves both
// open.
HARNESS_BOTH inline std::int64_t to_integer(double v) {
  if (!(v == v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  if (v <= -0x1p63) return INT64_MIN;
  return static_cast<std::int64_t>(v);
}

HARNESS_BOTH inline void store(void* memory, DType type, std::uint64_t i, double v) {
  if (is_floating(type))
    at<float>(memory, i) = static_cast<float>(v);
  else
    store_integer(memory, type, i, to_integer(v));
}

}  // namespace custash::harness
