// SPDX-License-Identifier: MIT
// Element types, and reading and writing one element: what kernels, their models on the
// simulator and the CPU all share. Sixteen-bit floats are converted by hand, to nearest even,
// so that host and device agree to the bit.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HARNESS_BOTH __host__ __device__
#else
#define HARNESS_BOTH
#endif

namespace custash::harness {

enum class DType : int { Float32, Float16, BFloat16, Int64, Int32, UInt8, Bool };

HARNESS_BOTH constexpr std::uint64_t size_of(DType type) {
  switch (type) {
    case DType::Int64:
      return 8;
    case DType::Float32:
    case DType::Int32:
      return 4;
    case DType::Float16:
    case DType::BFloat16:
      return 2;
    case DType::UInt8:
    case DType::Bool:
      return 1;
  }
  return 0;
}

HARNESS_BOTH constexpr bool is_floating(DType type) {
  return type == DType::Float32 || type == DType::Float16 || type == DType::BFloat16;
}

const char* name_of(DType type);

// ---- sixteen bits

HARNESS_BOTH inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

HARNESS_BOTH inline float float_of(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

HARNESS_BOTH inline std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

HARNESS_BOTH inline float from_bfloat16(std::uint16_t half) {
  return float_of(static_cast<std::uint32_t>(half) << 16);
}

HARNESS_BOTH inline std::uint16_t to_float16(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7e00;
  if (magnitude >= 0x47800000U) return sign | 0x7c00;  // 65536 and more
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns and rounds
    const std::uint32_t rounded = bits_of(float_of(magnitude) + 0.5F);
    return static_cast<std::uint16_t>(sign | (rounded - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

HARNESS_BOTH inline float from_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) return float_of(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  if (magnitude < 0x400U)
    return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24F));
  return float_of(sign | ((magnitude << 13) + 0x38000000U));
}

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
  switch (type) {
    case DType::Float32:
      return at<float>(memory, i);
    case DType::Float16:
      return from_float16(at<std::uint16_t>(memory, i));
    case DType::BFloat16:
      return from_bfloat16(at<std::uint16_t>(memory, i));
    default:
      return static_cast<double>(load_integer(memory, type, i));
  }
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
    case DType::Bool:
      at<std::uint8_t>(memory, i) = v != 0;
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
  switch (type) {
    case DType::Float32:
      at<float>(memory, i) = static_cast<float>(v);
      break;
    case DType::Float16:
      at<std::uint16_t>(memory, i) = to_float16(static_cast<float>(v));
      break;
    case DType::BFloat16:
      at<std::uint16_t>(memory, i) = to_bfloat16(static_cast<float>(v));
      break;
    case DType::Bool:
      at<std::uint8_t>(memory, i) = v != 0;
      break;
    default:
      store_integer(memory, type, i, to_integer(v));
      break;
  }
}

}  // namespace custash::harness
