// SPDX-License-Identifier: MIT
// Contexts and memory as objects: making and dropping them. Used by context.cpp, device.cpp,
// memory.cpp and their like; all with the world's lock held.
#pragma once

#include "tests/sim/entry.hpp"

namespace custash::sim {

// Memory of cuMemAlloc and managed memory: CUDA_SUCCESS and the address, or why not.
CUresult alloc_device(Frame& frame, Bytes bytes, Origin origin, Address* out);
// Stream-ordered memory that nobody uses and no work can reach any more goes back (pool.cpp).
void trim_pools(World& world, ThreadState& thread);
// All that pools of the device hold and nobody uses (pool.cpp): memory ran short.
void empty_pools(World& world, ThreadState& thread, int device);
// The record goes and the memory goes back; no wait.
void drop_region(World& world, ThreadState& thread, Address base, OpId op = 0);
Region* region_at(World& world, Address address);  // the one that holds it, if any
Region& add_region(World& world, ThreadState& thread, Region region, OpId op = 0);
void drop_alias(World& world, const Region& region);        // ipc.cpp: opened from a handle
bool find_array(World& world, CUarray handle, Array* out);  // array.cpp
void drop_arrays(World& world, std::uint64_t context_id);
// A handle has a mapping or a binding less (vmm.cpp): its memory may go back.
void drop_mapping(World& world, CUmemGenericAllocationHandle handle);
CUresult release_multicast(World& world, CUmemGenericAllocationHandle handle);
void drop_region_of_pool(World& world, ThreadState& thread, const Region& region, OpId op);

// Of a device's primary context: device.cpp. The last release destroys it.
CUresult retain_primary(Frame& frame, CUcontext* out, CUdevice device);
CUresult release_primary(Frame& frame, CUdevice device);
CUcontext make_context(World& world, int device, bool primary, unsigned flags);
CUresult create_stream(
    Frame& frame, Context& context, CUstream* out, unsigned flags, int priority);
// event.cpp: as cuCtxRecordEvent and cuCtxWaitEvent.
CUresult record_context(Frame& frame, Context& context, CUevent event);
CUresult wait_in_context(Frame& frame, Context& context, CUevent event);
// Waits for the context's work, then drops it with all that belongs to it.
CUresult destroy_context(World& world, ThreadState& thread, CUcontext handle);

}  // namespace custash::sim
