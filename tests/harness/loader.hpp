// SPDX-License-Identifier: MIT
// PrefetchLoader: hands out batches that are on the device already. While one is used, the next
// is made in pinned memory and copied on a stream of the loader's own; two pinned buffers take
// turns, each refilled only when its last copy is done.
#pragma once

#include "tests/harness/tensor.hpp"

#include <array>
#include <functional>

namespace custash::harness {

class PrefetchLoader {
 public:
  // Fills the pinned tensor with batch `index`; false: there is none.
  using Fill = std::function<bool(std::int64_t index, const Tensor& batch)>;

  PrefetchLoader(Shape shape, DType dtype, Fill fill, int device = current_device());

  // The next batch, usable on the current stream of the device; undefined at the end.
  Tensor next();

 private:
  struct Buffer {
    Tensor pinned;
    Event copied;
  };

  void prefetch();

  Fill fill_;
  Stream side_;
  std::array<Buffer, 2> buffers_;
  std::int64_t made_ = 0;
  Tensor ready_;
};

}  // namespace custash::harness
