// SPDX-License-Identifier: MIT
// Stream-ordered memory: pools that keep what is freed until a synchronisation (or longer, by
// their release threshold), hand it out again on the same stream at once, and on others once it
// is idle.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/slab.hpp"

#include <algorithm>
#include <cstring>

namespace custash::sim {
namespace {

Bytes rounded(Bytes bytes) {
  return align_up(bytes, bytes <= kSmall ? kPieceUnit : kGranule);
}

bool take_fresh(World& w, Pool& pool, Region& region) {
  if (pool.most != 0 && pool.reserved + region.size > pool.most) return false;
  if (region.size <= kSmall) return take_piece(w, pool.slabs, pool.device, region);
  if (!take_memory(w, pool.device, region.size)) return false;
  region.base = w.space.reserve(region.size, kGranule);
  region.physical = w.space.make_physical(region.size);
  region.charged = region.size;
  if (region.base != 0 && w.space.map(region.base, region.size, region.physical)) return true;
  return_memory(w, pool.device, region.size);
  return false;
}

void trim(World& w, ThreadState& thread, Pool& pool, Bytes keep) {
  for (std::size_t i = 0; i < pool.free.size() && pool.reserved > keep;) {
    const Pool::Free entry = pool.free[i];
    if (!is_done(w, entry.op)) {
      ++i;
      continue;
    }
    pool.free.erase(pool.free.begin() + static_cast<std::ptrdiff_t>(i));
    const Region region = w.regions.at(entry.address);
    w.regions.erase(entry.address);
    drop_region_of_pool(w, thread, region, 0);
  }
}

// A block that waits in the pool and may be used on this stream; `after`: what it comes after.
bool take_waiting(
    World& w, Pool& pool, const Stream& s, Bytes bytes, Address* out, OpId* after) {
  const auto found =
      std::find_if(pool.free.rbegin(), pool.free.rend(), [&](const Pool::Free& e) {
        return e.bytes == bytes && (e.stream_id == s.id || is_done(w, e.op));
      });
  if (found == pool.free.rend()) return false;
  *out = found->address;
  *after = found->op;
  pool.free.erase(std::next(found).base());
  return true;
}

void count_in_use(Pool& pool, Bytes bytes) {
  pool.in_use += bytes;
  pool.in_use_high = std::max(pool.in_use_high, pool.in_use);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  ++pool.live;
}

// The region of the new block, not yet announced; null: out of memory.
Region* take(
    Frame& f, Pool& pool, std::uint64_t handle, const Stream& s, Bytes bytes, OpId* after) {
  World& w = f.world;
  Address address = 0;
  if (s.capture == nullptr && take_waiting(w, pool, s, rounded(bytes), &address, after)) {
    Region& region = w.regions.at(address);
    region.freed = false;
    region.requested = bytes;
    region.buffer_id = w.next_serial++;
    count_in_use(pool, region.size);
    return &region;
  }
  Region region;
  region.size = rounded(bytes);
  region.requested = bytes;
  region.origin = Origin::Pool;
  region.device = pool.device;
  region.handle = handle;
  region.buffer_id = w.next_serial++;
  if (!take_fresh(w, pool, region)) {
    trim(w, f.thread, pool, 0);
    if (!take_fresh(w, pool, region)) return nullptr;
  }
  f.charge(alloc_cost(bytes));
  pool.reserved += region.size;
  count_in_use(pool, region.size);
  return &(w.regions[region.base] = region);
}

void put_back(World& w, Region& region, OpId op, std::uint64_t stream_id) {
  Pool* pool = w.pools.get(region.handle);
  region.freed = true;
  if (pool == nullptr) return;
  pool->in_use -= region.size;
  --pool->live;
  pool->free.push_back({region.base, region.size, op, stream_id});
}

// The driver counts such memory apart from that of its pools.
GraphMemory own_by_graph(World& w, Region& region, Pool& pool, CUdevice device) {
  pool.reserved -= region.size;
  w.devices[static_cast<std::size_t>(device)].of_graphs += region.size;
  return GraphMemory(&w, [world = w.id, base = region.base, device](void*) {
    const Guard guard;
    if (guard->id != world) return;
    const auto it = guard->regions.find(base);
    if (it == guard->regions.end()) return;
    if (Observer* o = observer())
      o->on_free(thread_state(*guard).id, Origin::Pool, base, it->second.requested, 0);
    guard->devices[static_cast<std::size_t>(device)].of_graphs -= it->second.size;
    if (Pool* const pool = guard->pools.get(it->second.handle))
      pool->reserved += it->second.size;
    put_back(*guard, it->second, 0, 0);
  });
}

CUresult alloc(
    Frame& f, Door door, CUdeviceptr* out, size_t bytes, CUmemoryPool handle, CUstream stream) {
  World& w = f.world;
  Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (handle == nullptr) handle = w.devices[static_cast<std::size_t>(s->context->device)].pool;
  Pool* pool = w.pools.get(handle);
  if (out == nullptr || bytes == 0 || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(admit(w, *s));
  *out = 0;  // as the driver does where the call then fails
  if (bytes > w.options.device_memory) return CUDA_ERROR_OUT_OF_MEMORY;
  OpId after = 0;
  Region* region = take(f, *pool, (std::uint64_t)handle, *s, bytes, &after);
  if (region == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = region->base;
  if (s->capture != nullptr) {
    GraphMemory owned = own_by_graph(w, *region, *pool, s->context->device);
    if (Graph* graph = graph_of(w, *s->capture)) graph->memory.push_back(owned);
    if (Observer* o = observer())
      o->on_alloc(f.thread.id, Origin::Pool, region->base, bytes, 0);
    return enqueue(f, *s, {.name = "allocation", .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC});
  }
  std::vector<OpId> before;
  if (after != 0) before.push_back(after);
  const OpId op = submit(w,
                         {.context = s->context,
                          .stream = s,
                          .thread = f.thread.id,
                          .work = {.name = "allocation"},
                          .after = std::move(before)});
  if (Observer* o = observer()) o->on_alloc(f.thread.id, Origin::Pool, *out, bytes, op);
  return CUDA_SUCCESS;
}

// Taken as well (seen with driver 580). It goes back once the stream has come so far and a wait
// has seen it.
CUresult free_plain_async(Frame& f, Stream& s, Region& region) {
  if (region.shared || s.capture != nullptr) return CUDA_ERROR_INVALID_VALUE;
  OpId op = 0;
  SIM_TRY(enqueue(f, s, {.name = "free"}, &op));
  region.freed = true;
  f.world.plain_frees.push_back({region.base, region.buffer_id, op});
  return CUDA_SUCCESS;
}

CUresult free_async(Frame& f, Door door, CUdeviceptr address, CUstream stream) {
  World& w = f.world;
  Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_SUCCESS;
  const auto it = w.regions.find(address);
  if (it == w.regions.end() || it->second.freed) return CUDA_ERROR_INVALID_VALUE;
  if (it->second.origin == Origin::Alloc) return free_plain_async(f, *s, it->second);
  if (it->second.origin != Origin::Pool) return CUDA_ERROR_INVALID_VALUE;
  OpId op = 0;
  const bool captured = s->capture != nullptr;
  const CUresult result =
      enqueue(f, *s, {.name = "free", .type = CU_GRAPH_NODE_TYPE_MEM_FREE}, &op);
  if (result != CUDA_SUCCESS || captured) return result;
  const Bytes bytes = it->second.requested;
  put_back(w, it->second, op, s->id);
  if (Observer* o = observer()) o->on_free(f.thread.id, Origin::Pool, address, bytes, op);
  return CUDA_SUCCESS;
}

}  // namespace

// cuMemFree of stream-ordered memory (no wait), or a block leaving its pool for good.
void drop_region_of_pool(World& w, ThreadState& thread, const Region& region, OpId op) {
  Pool* pool = w.pools.get(region.handle);
  if (pool == nullptr) return;
  if (!region.freed) {
    pool->in_use -= region.size;
    --pool->live;
  }
  pool->reserved -= region.size;
  if (region.charged == 0) return drop_piece(w, pool->slabs, pool->device, region);
  w.space.unmap(region.base, region.size);
  w.space.drop_physical(region.physical, region.size);
  w.space.give_back(region.base, region.size);
  return_memory(w, pool->device, region.charged);
}

namespace {

void return_plain(World& w, ThreadState& thread) {
  std::erase_if(w.plain_frees, [&](const PlainFree& entry) {
    if (!is_done(w, entry.op)) return false;
    const auto it = w.regions.find(entry.address);
    if (it != w.regions.end() && it->second.buffer_id == entry.buffer_id)
      drop_region(w, thread, entry.address);
    return true;
  });
}

}  // namespace

void empty_pools(World& w, ThreadState& thread, int device) {
  return_plain(w, thread);
  w.pools.each([&](Pool& pool) {
    if (pool.device == device) trim(w, thread, pool, 0);
  });
}

void trim_pools(World& w, ThreadState& thread) {
  return_plain(w, thread);
  w.pools.each([&](Pool& pool) {
    if (!pool.free.empty()) trim(w, thread, pool, pool.release_threshold);
  });
}

SIM_ON_STREAM(cuMemAllocAsync,
              s,
              (CUdeviceptr * out, size_t n, CUstream s),
              alloc(f, door, out, n, nullptr, s))
SIM_ON_STREAM(cuMemAllocFromPoolAsync,
              s,
              (CUdeviceptr * out, size_t n, CUmemoryPool pool, CUstream s),
              pool == nullptr ? CUDA_ERROR_INVALID_VALUE : alloc(f, door, out, n, pool, s))
SIM_ON_STREAM(cuMemFreeAsync,
              s,
              (CUdeviceptr address, CUstream s),
              free_async(f, door, address, s))

namespace {

// The member maxSize of newer toolkits, behind those that each knows; 0: no limit.
Bytes max_size_of(const CUmemPoolProps& props) {
  Bytes most = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&props);
  std::memcpy(&most,
              bytes + offsetof(CUmemPoolProps, win32SecurityAttributes) + sizeof(void*),
              sizeof most);
  return most;
}

// A pool holds no less of what it reserves.
Bytes in_granules(Bytes bytes) {
  constexpr Bytes kGranule = Bytes{2} << 20U;
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

}  // namespace

SIM_ENTRY(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps* props)) {
  return SIM_CALL(cuMemPoolCreate, Init) {
    if (out == nullptr || props == nullptr || props->location.id < 0 ||
        props->location.id >= f.world.options.devices)
      return CUDA_ERROR_INVALID_VALUE;
    auto pool = std::make_unique<Pool>();
    pool->device = props->location.id;
    pool->most = max_size_of(*props);
    *out = f.world.pools.add<CUmemoryPool>(std::move(pool));
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemPoolDestroy, (CUmemoryPool handle)) {
  return SIM_CALL(cuMemPoolDestroy, Init) {
    Pool* pool = f.world.pools.get(handle);
    if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    DeviceState& device = f.world.devices[static_cast<std::size_t>(pool->device)];
    if (device.pool == handle) device.pool = device.default_pool;
    trim(f.world, f.thread, *pool, 0);
    if (pool->live == 0 && pool->free.empty()) f.world.pools.drop(handle);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep)) {
  return SIM_CALL(cuMemPoolTrimTo, Init) {
    Pool* pool = f.world.pools.get(handle);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(forbid_unsafe(f.world, f.thread));
    trim(f.world, f.thread, *pool, keep);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* out)) {
  return SIM_CALL(cuMemPoolGetAttribute, Init) {
    const Pool* pool = f.world.pools.get(handle);
    if (pool == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(forbid_unsafe(f.world, f.thread));
    std::uint64_t value = 0;
    switch (static_cast<int>(which)) {
      case 1:
      case 2:
      case 3: {
        const int on = pool->reuse[static_cast<std::size_t>(which) - 1] ? 1 : 0;
        std::memcpy(out, &on, sizeof on);
        return CUDA_SUCCESS;
      }
      case 4:
        value = pool->release_threshold;
        break;
      case 5:
        value = in_granules(pool->reserved);
        break;
      case 6:
        value = in_granules(pool->reserved_high);
        break;
      case 7:
        value = pool->in_use;
        break;
      case 8:
        value = pool->in_use_high;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(out, &value, sizeof value);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* in)) {
  return SIM_CALL(cuMemPoolSetAttribute, Init) {
    Pool* pool = f.world.pools.get(handle);
    if (pool == nullptr || in == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (which >= 1 && which <= 3) {  // reuse policies: kept, and without effect here
      int on = 0;
      std::memcpy(&on, in, sizeof on);
      pool->reuse[static_cast<std::size_t>(which) - 1] = on != 0;
      return CUDA_SUCCESS;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, in, sizeof value);
    if (which == 4) pool->release_threshold = value;
    // A high mark can be reset, to what is there now, and set to nothing else. What is there
    // now cannot be set. The codes are not yet seen on a GPU: tests/conformance/pools_own.cpp
    // asks.
    if (which == 5 || which == 7 || ((which == 6 || which == 8) && value != 0) || which > 8)
      return CUDA_ERROR_INVALID_VALUE;
    if (which == 6) pool->reserved_high = pool->reserved;
    if (which == 8) pool->in_use_high = pool->in_use;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuMemPoolSetAccess,
             Init,
             (CUmemoryPool handle, const CUmemAccessDesc* map, size_t n),
             f.world.pools.get(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)
SIM_ENTRY_IS(cuMemPoolGetAccess,
             Init,
             (CUmemAccess_flags * out, CUmemoryPool handle, CUmemLocation* where),
             f.world.pools.get(handle) == nullptr
                 ? CUDA_ERROR_INVALID_VALUE
                 : answer_with(out, CU_MEM_ACCESS_FLAGS_PROT_READWRITE))

namespace {

CUresult get_pool(Frame& f, CUmemoryPool* out, CUdevice device, bool is_default) {
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceState& d = f.world.devices[static_cast<std::size_t>(device)];
  *out = is_default ? d.default_pool : d.pool;
  return CUDA_SUCCESS;
}

}  // namespace

// What is in use and what is reserved are the same here.
SIM_ENTRY(cuDeviceGetGraphMemAttribute,
          (CUdevice device, CUgraphMem_attribute which, void* out)) {
  return SIM_CALL(cuDeviceGetGraphMemAttribute, Init) {
    if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (out == nullptr || which < 0 || which > 3) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t bytes = f.world.devices[static_cast<std::size_t>(device)].of_graphs;
    std::memcpy(out, &bytes, sizeof bytes);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuDeviceGetDefaultMemPool,
             Init,
             (CUmemoryPool * out, CUdevice device),
             get_pool(f, out, device, true))
SIM_ENTRY_IS(cuDeviceGetMemPool,
             Init,
             (CUmemoryPool * out, CUdevice device),
             get_pool(f, out, device, false))

SIM_ENTRY(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool handle)) {
  return SIM_CALL(cuDeviceSetMemPool, Init) {
    const Pool* pool = f.world.pools.get(handle);
    if (pool == nullptr || !known_device(f.world, device) || pool->device != device)
      return CUDA_ERROR_INVALID_VALUE;
    f.world.devices[static_cast<std::size_t>(device)].pool = handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
