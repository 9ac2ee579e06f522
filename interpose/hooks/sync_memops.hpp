// SPDX-License-Identifier: MIT
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of our blocks. The driver would set it for a whole segment,
// and refuses it for mapped pages. What it promises, that copies and fills that are not
// asynchronous by name have ended when they return, is kept here instead, block by block. Known
// by buffer id, which no later block gets: a free has nothing to do. Own lock, held across no
// call. Thread safe.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::sync_memops {

// Some block has it.
bool in_use() noexcept;

void set(std::uint64_t buffer_id, bool on);
bool is_set(std::uint64_t buffer_id);

// A copy or fill that names these addresses has been submitted to a default stream: waits for
// it where one of them lies in a block that has the attribute. The call's own result goes in
// and, unless the wait fails, comes out.
CUresult settle(
    Allocator& core, NullStream null, Address first, Address second, CUresult result);

}  // namespace custash::sync_memops
