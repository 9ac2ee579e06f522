// SPDX-License-Identifier: MIT
// Sharing a tensor's memory with another process by CUDA's IPC handles. The rules of CUDA hold:
// the memory must outlive its users, and a process cannot open a handle of its own.
#pragma once

#include "tests/harness/tensor.hpp"

#include <string>

namespace custash::harness {

// A copy in memory of cudaMalloc's, which handles are made for; stream-ordered memory has none.
Tensor to_shareable(const Tensor& tensor);

// What the other process needs, as one word of text.
std::string share(const Tensor& tensor);
Tensor open_shared(const std::string& text);

}  // namespace custash::harness
