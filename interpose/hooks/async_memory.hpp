// SPDX-License-Identifier: MIT
// Stream-ordered memory: when custash may answer in place of the driver's default pool. State:
// one flag for the process, set for good when the program gives default pools a meaning of its
// own.
#pragma once

#include "allocator/allocator.hpp"

#include <optional>

namespace custash::async_memory {

// The block, or the core's refusal; nullopt: the driver's pool is to answer (capture, pool set
// by the program, a device without pools, a stream of another context, odd arguments).
std::optional<Status> allocate(
    Allocator& core, CUstream stream, NullStream null, Bytes bytes, Address* out);

// Its handle may be another context's next.
void context_ended(CUcontext context);

// The program looks at its default pools: from now on the driver serves all.
void leave_to_driver();
bool is_default_pool(Allocator& core, CUmemoryPool pool, CUdevice* device);

}  // namespace custash::async_memory
