// SPDX-License-Identifier: MIT
#include "interpose/hooks/own_pools.hpp"

#include "allocator/base/scope.hpp"
#include "allocator/charged_memory.hpp"
#include "interpose/hooks/async_memory.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/real/real_driver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>

namespace custash::own_pools {
namespace {

struct OwnPool {
  std::atomic<CUmemoryPool> handle{nullptr};  // its blocks name it also once it is destroyed
  std::atomic<bool> served{false};
  std::atomic<CUdevice> device{0};
  std::atomic<CUcontext> context{nullptr};  // where it has served; its device's primary one
  std::atomic<Bytes> threshold{0};
};

// What the program knows, or may query, of a pool's use.
struct PoolUse {
  Bytes used = 0;
  Bytes used_high = 0;
  Bytes reserved = 0;
  Bytes reserved_high = 0;
};

// Order: a handle is released after its pool is filled, and acquired by who finds it. The
// fields of a pool stand alone: a thread that has the handle came after the pool was made.
constinit std::array<std::atomic<CUmemoryPool>, Accounts::kMost> handles{};
constinit std::array<OwnPool, Accounts::kMost> pools{};
constinit std::atomic<std::size_t> seen{0};  // no pool stands behind so many
constinit RankedMutex mutex{HookRank::OwnPools};
constinit std::array<PoolUse, Accounts::kMost> uses GUARDED_BY(mutex){};

// 0: none. The first pools are found first, and programs have few.
Accounts::Number find(CUmemoryPool pool) {
  const std::size_t count = seen.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count && pool != nullptr; ++i)
    if (handles[i].load(std::memory_order_acquire) == pool)
      return static_cast<Accounts::Number>(i + 1);
  return 0;
}

OwnPool& of(Accounts::Number number) {
  return pools[number - 1U];
}

// What toolkits since 11.8 have added behind the members that all know; 0 in older programs.
struct LaterProperties {
  Bytes most = 0;  // maxSize; 0: no limit
  unsigned short usage = 0;
  unsigned char unknown[54] = {};

  explicit LaterProperties(const CUmemPoolProps& properties) {
    constexpr std::size_t kAt =
        offsetof(CUmemPoolProps, win32SecurityAttributes) + sizeof(void*);
    static_assert(kAt + sizeof most + sizeof usage + sizeof unknown == sizeof properties);
    const auto* from = reinterpret_cast<const unsigned char*>(&properties) + kAt;
    std::memcpy(&most, from, sizeof most);
    std::memcpy(&usage, from += sizeof most, sizeof usage);
    std::memcpy(unknown, from + sizeof usage, sizeof unknown);
  }
};

// Memory for the decompression engine differs from other memory only where the device has one.
// RMM asks for it everywhere.
bool is_plain_usage(Allocator& core, CUdevice device, unsigned short usage) {
  constexpr unsigned short kDecompress = 2;  // CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS
  constexpr auto kAlgorithms = static_cast<CUdevice_attribute>(136);  // of the engine, a mask
  int algorithms = 1;
  return usage == 0 || (usage == kDecompress &&
                        core.driver().device_get_attribute(&algorithms, kAlgorithms, device) ==
                            CUDA_SUCCESS &&
                        algorithms == 0);
}

// Device memory without a handle, and nothing that a newer toolkit may add.
bool can_serve(Allocator& core,
               const CUmemPoolProps& properties,
               const LaterProperties& later) {
  return properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties.win32SecurityAttributes == nullptr &&
         is_plain_usage(core, properties.location.id, later.usage) &&
         std::all_of(std::begin(later.unknown),
                     std::end(later.unknown),
                     [](unsigned char byte) { return byte == 0; });
}

// Brings what is known of the pool's use up to date. It keeps what its threshold lets it keep:
// the driver releases more at each synchronisation.
PoolUse& look(Allocator& core, Accounts::Number number, Bytes keep, Bytes older)
    REQUIRES(mutex) {
  const Accounts::Use now = ChargedMemory(core).accounts().sample(number);
  PoolUse& known = uses[number - 1U];
  known.used = now.now + older;
  known.used_high = std::max(known.used_high, now.most + older);
  known.reserved = std::max(known.reserved, now.most + older);
  known.reserved_high = std::max(known.reserved_high, known.reserved);
  known.reserved = std::max(known.used, std::min(known.reserved, keep));
  return known;
}

// Without room for another pool the driver serves it.
void open(Allocator& core,
          CUmemoryPool pool,
          CUdevice device,
          Bytes most,
          Bytes threshold = 0,
          CUcontext context = nullptr,
          Bytes older = 0) {
  const Accounts::Number number = ChargedMemory(core).accounts().open(most);
  if (number == 0) return;
  {
    const RankedLock lock(mutex);
    uses[number - 1U] = {older, older, older, older};
  }
  OwnPool& made = of(number);
  made.handle.store(pool);
  made.device.store(device);
  made.context.store(context);
  made.threshold.store(threshold);
  made.served.store(true);
  handles[number - 1U].store(pool, std::memory_order_release);
  std::size_t known = seen.load();
  while (known < number && !seen.compare_exchange_weak(known, number)) {
  }
}

}  // namespace

void made(Allocator& core, CUmemoryPool pool, const CUmemPoolProps& properties) {
  const Config& config = core.config();
  const LaterProperties later(properties);
  if (config.pools == Pools::Auto && config.caching != Caching::Never &&
      can_serve(core, properties, later))
    open(core,
         pool,
         properties.location.id,
         later.most == 0 ? Accounts::kUnlimited : later.most);
}

void adopt(Allocator& core, CUmemoryPool pool, CUdevice device, CUcontext context) {
  auto* const ask = real::function<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>(
      Entry::hook_cuMemPoolGetAttribute);
  const RelaxedCapture relaxed(core.driver());
  cuuint64_t threshold = 0;
  if (ask != nullptr &&
      ask(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS)
    open(core,
         pool,
         device,
         Accounts::kUnlimited,
         threshold,
         context,
         async_memory::held_for_streams(core, device));
}

std::optional<Status> allocate(Allocator& core,
                               CUmemoryPool handle,
                               CUstream stream,
                               NullStream null,
                               Bytes bytes,
                               Address* out) {
  const Accounts::Number number = find(handle);
  CUcontext context = nullptr;
  if (number == 0 || bytes == 0 || !of(number).served.load(std::memory_order_relaxed) ||
      core.driver().ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr)
    return std::nullopt;
  OwnPool& pool = of(number);
  ChargedMemory memory(core);
  if (pool.context.load(std::memory_order_relaxed) == context) {
    *out = memory.try_allocate_on(number, context, stream, null, bytes);
    if (*out != 0) return Status();
  }
  CUdevice device = 0;
  if (!async_memory::admits(core, context, stream, null, &device) ||
      device != pool.device.load(std::memory_order_relaxed))
    return std::nullopt;
  pool.context.store(context, std::memory_order_relaxed);
  return memory.allocate_on(number, context, stream, null, bytes, out);
}

std::optional<Status> allocate_current(
    Allocator& core, CUstream stream, NullStream null, Bytes bytes, Address* out) {
  if (seen.load(std::memory_order_relaxed) == 0) return std::nullopt;
  CUdevice device = 0;
  CUmemoryPool pool = nullptr;
  if (core.driver().ctx_get_device(&device) != CUDA_SUCCESS ||
      real::current_pool(device, &pool) != CUDA_SUCCESS)
    return std::nullopt;
  return allocate(core, pool, stream, null, bytes, out);
}

bool is_own(CUmemoryPool pool) {
  return find(pool) != 0;
}

CUmemoryPool pool_of(Accounts::Number account) {
  return of(account).handle.load();
}

void attribute_set(Allocator& core,
                   CUmemoryPool pool,
                   CUmemPool_attribute attribute,
                   const void* value,
                   Bytes older) {
  const Accounts::Number number = find(pool);
  if (number == 0) return;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      of(number).threshold.store(*static_cast<const cuuint64_t*>(value));
      return;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
      const RankedLock lock(mutex);
      PoolUse& known = look(core, number, of(number).threshold.load(), older);
      if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        known.reserved_high = known.reserved;
      else
        known.used_high = known.used;
      return;
    }
    default:
      if (!async_memory::allows_reuse(attribute, value)) of(number).served.store(false);
  }
}

// The blocks that live are reached from then on where custash maps pages. Later ones are the
// driver's.
void access_set(Allocator& core,
                CUmemoryPool pool,
                const CUmemAccessDesc* list,
                std::size_t count) {
  const Accounts::Number number = find(pool);
  if (number == 0) return;
  const CUdevice device = of(number).device.load();
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation& where = list[i].location;
    if (where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id == device) continue;
    of(number).served.store(false);
    CUcontext const owner = of(number).context.load();
    CUcontext const other =
        where.type == CU_MEM_LOCATION_TYPE_DEVICE ? primary_context(core, where.id) : nullptr;
    if (owner != nullptr && other != nullptr && list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      core.peer_access_enabled(owner, other);
  }
}

void trimmed(Allocator& core, CUmemoryPool pool, Bytes keep, Bytes older) {
  const Accounts::Number number = find(pool);
  if (number == 0) return;
  Bytes spare = 0;
  {
    const RankedLock lock(mutex);
    const Bytes used = look(core, number, keep, older).used;
    spare = keep > used ? keep - used : 0;
  }
  // Cached memory belongs to no pool. As much of it stays as this one may keep.
  const CUdevice device = of(number).device.load();
  const DeviceStats now = core.stats(device);
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  const auto cached =
      static_cast<Bytes>(now.reserved_bytes[kAll].current - now.allocated_bytes[kAll].current);
  if (cached > spare) core.trim(device, cached - spare).ignore();
}

Bytes use(Allocator& core, CUmemoryPool pool, CUmemPool_attribute attribute, Bytes older) {
  const Accounts::Number number = find(pool);
  if (number == 0) return older;
  const RankedLock lock(mutex);
  const PoolUse& known = look(core, number, of(number).threshold.load(), older);
  constexpr Bytes kGranule = 2_MiB;  // a driver's pool holds no less of what it reserves
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return align_up(known.reserved, kGranule);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return align_up(known.reserved_high, kGranule);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return known.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return known.used_high;
    default:
      return 0;
  }
}

Accounts::Number destroying(CUmemoryPool pool) {
  const Accounts::Number number = find(pool);
  if (number != 0) handles[number - 1U].store(nullptr);
  return number;
}

void destroyed(Allocator& core, Accounts::Number account, CUmemoryPool pool, bool destroyed) {
  if (account == 0) return;
  if (destroyed)
    ChargedMemory(core).accounts().close(account);
  else
    handles[account - 1U].store(pool, std::memory_order_release);
}

void context_ended(Allocator& core, CUcontext context) {
  const std::size_t count = seen.load();
  for (std::size_t i = 0; i < count; ++i) {
    CUcontext expected = context;
    if (pools[i].context.compare_exchange_strong(expected, nullptr))
      ChargedMemory(core).accounts().forget(static_cast<Accounts::Number>(i + 1));
  }
}

}  // namespace custash::own_pools
