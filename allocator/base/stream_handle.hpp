// SPDX-License-Identifier: MIT
// What a stream's handle says by itself. Pure.
#pragma once

#include <cuda.h>

namespace custash {

// A stream that each context has, and the program did not make.
inline bool is_default_stream(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

}  // namespace custash
