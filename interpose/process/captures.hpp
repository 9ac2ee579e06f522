// SPDX-License-Identifier: MIT
// What the doors themselves must know of stream captures: how many are under way, whether a
// stream is in one, and whether a graph was built by hand that the host could watch. Atomics,
// no lock.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::captures {

// Captures that were begun through us and have not ended.
[[nodiscard]] bool under_way() noexcept;

// Whether the stream (null: as `null` says) is in a capture, also in one that was invalidated.
[[nodiscard]] bool is_capturing(Allocator& core, CUstream stream, NullStream null) noexcept;

// A host function, copy or memory operation was added to a graph by its own call: it is not
// followed further, from then on every graph may be one whose effect the host can see. (What a
// capture adds is seen by the core.)
void add_host_visible_node() noexcept;
[[nodiscard]] bool host_visible_node_added() noexcept;
// The same of a kernel whose parameters hold an address of host memory.
void add_host_reaching_node() noexcept;
[[nodiscard]] bool host_reaching_node_added() noexcept;

}  // namespace custash::captures
