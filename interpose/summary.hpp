// SPDX-License-Identifier: MIT
// The summary that summary:true asks for: one line a device on standard error. No state.
#pragma once

#include "allocator/allocator.hpp"

namespace custash {

void print_summary(Allocator& core) noexcept;

}  // namespace custash
