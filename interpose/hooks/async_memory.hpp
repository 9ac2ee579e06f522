// SPDX-License-Identifier: MIT
// Stream-ordered memory: when custash may answer in place of the driver's default pool. State:
// one flag for the process. It is set, never to be cleared, when the program gives default
// pools a meaning of its own.
#pragma once

#include "allocator/allocator.hpp"

#include <optional>

namespace custash::async_memory {

// The block, or the core's refusal. nullopt: the driver's pool must answer (a capture, a pool
// that the program set, a device without pools, a stream of another context, unusual
// arguments).
std::optional<Status> allocate(
    Allocator& core, CUstream stream, NullStream null, Bytes bytes, Address* out);

// A reuse policy that is switched on, as all are when a pool is made.
bool allows_reuse(CUmemPool_attribute attribute, const void* value);

// Whether a call on that stream may be served: its context is current and its device's primary
// one, the device has pools, and the stream does not capture.
bool admits(
    Allocator& core, CUcontext context, CUstream stream, NullStream null, CUdevice* device);

// Another context may get the same handle next.
void context_ended(CUcontext context);

// The program can observe which pool serves it: from now on the default pools are counted
// (own_pools.hpp).
void count_default_pools(Allocator& core);
// What is in use of the device's default pool from before.
Bytes held_for_streams(Allocator& core, CUdevice device);
// The same of this pool, which is counted from now on; 0 for one that is no default pool.
Bytes counted(Allocator& core, CUmemoryPool pool);
// From now on the driver serves all of them.
void leave_to_driver();
bool is_default_pool(Allocator& core, CUmemoryPool pool, CUdevice* device);
// Of the current device. JAX names it in each allocation.
bool is_default_here(Allocator& core, CUmemoryPool pool);

}  // namespace custash::async_memory
