// SPDX-License-Identifier: MIT
// The state of stream captures for the hooks: how many are under way, whether a stream is in
// one, and whether the program built a graph by hand whose effect the host could see. Atomics,
// no lock.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::captures {

// Captures that our hooks began and that have not ended.
[[nodiscard]] bool under_way() noexcept;

// Whether the stream (null: as `null` says) is in a capture, even an invalidated one.
[[nodiscard]] bool is_capturing(Allocator& core, CUstream stream, NullStream null) noexcept;

// The program itself added a host function, copy or memory operation to a graph. custash does
// not follow that graph: from then on the host may see the effect of every graph. (The core
// sees nodes that a capture adds.)
void add_host_visible_node() noexcept;
[[nodiscard]] bool host_visible_node_added() noexcept;
// The same for a kernel whose parameters hold an address of host memory.
void add_host_reaching_node() noexcept;
[[nodiscard]] bool host_reaching_node_added() noexcept;

}  // namespace custash::captures
