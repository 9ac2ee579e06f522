// SPDX-License-Identifier: MIT
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of our blocks. The driver would set it for a whole segment,
// and refuses it for mapped pages. So custash keeps its promise for each block: copies and
// fills that are not asynchronous by name have ended when they return. The key is the buffer
// id, which no later block gets, so a free has nothing to do. Ids of freed blocks are forgotten
// now and then. Own lock, held across no call. Thread safe.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::sync_memops {

// Some block has it.
bool in_use() noexcept;

void set(Allocator& core, const BlockInfo& block, bool on);
bool is_set(std::uint64_t buffer_id);

// A copy or fill that names these addresses was submitted to a default stream. Waits for it
// where one of them is in a block with the attribute. Returns `result`, or the wait's error.
CUresult finish(
    Allocator& core, NullStream null, Address first, Address second, CUresult result);

}  // namespace custash::sync_memops
