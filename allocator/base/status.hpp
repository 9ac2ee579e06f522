// SPDX-License-Identifier: MIT
// Status: the error type inside custash, a value around CUresult. A code that the driver
// returned is passed on unchanged. Pure.
#pragma once

#include <cuda.h>

namespace custash {

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;

  constexpr Status(CUresult code)
      : code_(code) {}  // NOLINT(google-explicit-constructor): a code is a Status

  [[nodiscard]] constexpr bool ok() const { return code_ == CUDA_SUCCESS; }

  [[nodiscard]] constexpr CUresult code() const { return code_; }

  // For the few calls whose failure changes nothing for us (say why beside the call).
  constexpr void ignore() const {}

  constexpr bool operator==(const Status&) const = default;

 private:
  CUresult code_ = CUDA_SUCCESS;
};

// A fault on the device: cuda.h says of these that any further work returns the same error. By
// number where CUDA 11.8 has no name for it.
constexpr bool is_sticky(CUresult code) {
  switch (static_cast<int>(code)) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case 226:  // CUDA_ERROR_CONTAINED
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case 721:  // CUDA_ERROR_TENSOR_MEMORY_LEAK
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

// The driver does not make the call here, in a host function or beside a capture: a free that
// it refuses frees nothing.
constexpr bool is_refusal(Status status) {
  constexpr int kLastOfCaptures = 908;
  return status.code() == CUDA_ERROR_NOT_PERMITTED ||
         (status.code() >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
          static_cast<int>(status.code()) <= kLastOfCaptures);
}

}  // namespace custash
