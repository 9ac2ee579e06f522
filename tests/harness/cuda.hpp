// SPDX-License-Identifier: MIT
// CUDA's codes as exceptions, the way PyTorch raises them.
#pragma once

#include "allocator/base/units.hpp"

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace custash::harness {

class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const std::string& text) : runtime_error(text), code_(code) {}

  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

class OutOfMemory : public CudaError {
 public:
  explicit OutOfMemory(const std::string& text) : CudaError(cudaErrorMemoryAllocation, text) {}
};

// Throws CudaError("what: text of the code") unless it is cudaSuccess.
void check(cudaError_t code, const char* what);

}  // namespace custash::harness
