// SPDX-License-Identifier: MIT
// Device memory of cuMemAlloc: small requests from slabs of 2 MiB, larger ones in granules of 2
// MiB, out of a finite device. A free waits for the whole device of the block, and for no
// other.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/machine.hpp"
#include "tests/sim/slab.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

CUresult alloc_small(Frame& f, Region& region) {
  region.size = align_up(region.requested, kPieceUnit);
  return take_piece(f.world, f.context->home->slabs, region.device, region)
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult alloc_large(Frame& f, Region& region) {
  World& w = f.world;
  const Bytes bytes = align_up(region.requested, kGranule);
  Bytes& managed = w.devices[static_cast<std::size_t>(region.device)].managed;
  const Bytes more = region.origin == Origin::Managed ? bytes : 0;
  managed += more;
  if (!take_memory(w, region.device, bytes)) {
    managed -= more;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  region.base = w.space.reserve(bytes, kGranule);
  region.physical = w.space.make_physical(bytes);
  region.size = bytes;
  region.charged = bytes;
  if (region.base == 0 || !w.space.map(region.base, bytes, region.physical)) {
    managed -= more;
    return_memory(w, region.device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

}  // namespace

Region* region_at(World& w, Address address) {
  const auto it = w.regions.upper_bound(address);
  if (it == w.regions.begin()) return nullptr;
  Region& region = std::prev(it)->second;
  return !region.freed && address - region.base < region.size ? &region : nullptr;
}

Region& add_region(World& w, ThreadState& thread, Region region, OpId op) {
  region.buffer_id = w.next_serial++;
  Region& kept = w.regions[region.base] = region;
  if (Observer* o = observer())
    o->on_alloc(thread.id, kept.origin, kept.base, kept.requested, op);
  return kept;
}

CUresult alloc_device(Frame& f, Bytes bytes, Origin origin, Address* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > f.world.options.device_memory) return CUDA_ERROR_OUT_OF_MEMORY;
  Region region;
  region.requested = bytes;
  region.origin = origin;
  region.device = f.context->device;
  region.context_id = f.context->home->id;
  f.charge(alloc_cost(bytes));
  const bool small = bytes <= kSmall && origin == Origin::Alloc;
  CUresult result = small ? alloc_small(f, region) : alloc_large(f, region);
  if (result != CUDA_SUCCESS) {
    empty_pools(f.world, f.thread, region.device);
    result = small ? alloc_small(f, region) : alloc_large(f, region);
  }
  if (result != CUDA_SUCCESS) return result;
  *out = add_region(f.world, f.thread, region).base;
  return CUDA_SUCCESS;
}

void drop_region(World& w, ThreadState& thread, Address base, OpId op) {
  const auto it = w.regions.find(base);
  if (it == w.regions.end()) return;
  const Region region = it->second;
  w.regions.erase(it);
  check_running(w);
  if (Observer* o = observer())
    o->on_free(thread.id, region.origin, base, region.requested, op);
  if (region.origin == Origin::Host) {
    if (!region.registered) unmap_host(base, region.size);
    return;
  }
  if (region.origin == Origin::Pool) return drop_region_of_pool(w, thread, region, op);
  if (region.shared) return drop_alias(w, region);
  if (region.charged == 0) {
    if (Context* c = context_by_id(w, region.context_id))
      drop_piece(w, c->slabs, c->device, region);
    return;
  }
  w.space.unmap(region.base, region.size);
  w.space.give_back(region.base, region.size);
  w.space.drop_physical(region.physical, region.size);
  if (region.origin == Origin::Managed)
    w.devices[static_cast<std::size_t>(region.device)].managed -= region.charged;
  return_memory(w, region.device, region.charged);
}

namespace {

// The copies of other contexts that touch this memory: see note_guest().
std::vector<OpId> copies_of(World& w, const Region& region) {
  std::vector<OpId> found;
  const Context* owner = context_by_id(w, region.context_id);
  if (owner == nullptr) return found;
  for (const OpId id : owner->guests) {
    const Op* op = find_op(w, id);
    if (op == nullptr) continue;
    const auto& accesses = op->work.accesses;
    if (std::any_of(accesses.begin(), accesses.end(), [&](const Access& each) {
          return each.address - region.base < region.size;
        }))
      found.push_back(id);
  }
  return found;
}

CUresult free_device(Frame& f, Address address) {
  World& w = f.world;
  if (address == 0) return CUDA_SUCCESS;
  SIM_TRY(forbid_unsafe(w, f.thread));
  auto found = w.regions.find(address);
  if (found == w.regions.end() || found->second.shared || found->second.freed ||
      found->second.origin == Origin::Vmm || found->second.origin == Origin::Host)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t buffer = found->second.buffer_id;
  const std::uint64_t context = found->second.context_id;
  if (found->second.origin != Origin::Pool) {
    const CUresult copied = wait_for(w, f.thread, copies_of(w, found->second));
    SIM_TRY(copied != CUDA_SUCCESS ? copied : wait_device(w, f.thread, found->second.device));
  }
  found = w.regions.find(address);  // another thread may have freed it while we waited
  if (found == w.regions.end() || found->second.buffer_id != buffer)
    return CUDA_ERROR_INVALID_VALUE;
  const Context* c = context_by_id(w, context);
  if (c != nullptr && c->sticky != CUDA_SUCCESS) return c->sticky;
  f.charge(free_cost(found->second.requested));
  drop_region(w, f.thread, address);
  return CUDA_SUCCESS;
}

CUresult alloc_pitch(
    Frame& f, CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  if (width > f.world.options.device_memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const Options& options = f.world.options;
  const Bytes row = align_up(width, options.pitch_unit);
  if (height > options.device_memory / row) return CUDA_ERROR_OUT_OF_MEMORY;
  const Bytes bytes = row * height - (options.whole_last_row ? 0 : row - width);
  Address address = 0;
  SIM_TRY(alloc_device(f, bytes, Origin::Alloc, &address));
  *out = address;
  *pitch = row;
  return CUDA_SUCCESS;
}

CUresult alloc(Frame& f, CUdeviceptr* out, size_t bytes, Origin origin) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  Address address = 0;
  const CUresult result = alloc_device(f, bytes, origin, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

}  // namespace

SIM_ENTRY(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes)) {
  return SIM_CALL(cuMemAlloc_v2, Context) {
    if (out != nullptr) *out = 0;
    return alloc(f, out, bytes, Origin::Alloc);
  });
}

SIM_ENTRY_IS(cuMemAllocPitch_v2,
             Context,
             (CUdeviceptr * out, size_t* pitch, size_t width, size_t height, unsigned element),
             alloc_pitch(f, out, pitch, width, height, element))
SIM_ENTRY_IS(cuMemAllocManaged,
             Context,
             (CUdeviceptr * out, size_t bytes, unsigned flags),
             flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST
                 ? CUDA_ERROR_INVALID_VALUE
                 : alloc(f, out, bytes, Origin::Managed))

SIM_ENTRY(cuMemFree_v2, (CUdeviceptr address)) {
  return SIM_CALL(cuMemFree_v2, ContextIfAny) {
    CUresult why = CUDA_SUCCESS;
    (void)current_context(f.world, f.thread, &why);
    return why == CUDA_ERROR_CONTEXT_IS_DESTROYED ? why : free_device(f, address);
  });
}

SIM_ENTRY(cuMemGetInfo_v2, (size_t * free, size_t* total)) {
  return SIM_CALL(cuMemGetInfo_v2, Context) {
    const Bytes all = f.world.options.device_memory;
    const int device = f.context->device;
    const Bytes others = MachineLock(f.world).used_by_others(device);
    if (free != nullptr)
      *free = all - f.world.devices[static_cast<std::size_t>(device)].used - others;
    if (total != nullptr) *total = all;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
