// SPDX-License-Identifier: MIT
// Status: the currency of errors inside custash, a value around CUresult. A code that the
// driver gave is returned unchanged, never replaced. Rank 0, pure.
#pragma once

#include <cuda.h>

namespace custash {

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;

  constexpr Status(CUresult code)
      : code_(code) {}  // NOLINT(google-explicit-constructor): is one

  [[nodiscard]] constexpr bool ok() const { return code_ == CUDA_SUCCESS; }

  [[nodiscard]] constexpr CUresult code() const { return code_; }

  // For the few calls whose failure changes nothing for us (say why beside the call).
  constexpr void ignore() const {}

  constexpr bool operator==(const Status&) const = default;

 private:
  CUresult code_ = CUDA_SUCCESS;
};

}  // namespace custash
