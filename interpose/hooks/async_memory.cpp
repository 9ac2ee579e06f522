// SPDX-License-Identifier: MIT
#include "interpose/hooks/async_memory.hpp"

#include "allocator/base/driver.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/hooks/own_pools.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/real/real_driver.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace custash {
namespace async_memory {
namespace {

// Order: none of these needs one. Each is a fact about the device, or a handle to compare.

// The program can observe which pool serves it, by a pool's access, attributes or choice.
constinit std::atomic<bool> pools_matter{false};

enum class Pools : signed char { Unknown, Missing, Present };
constexpr int kDevices = 64;
constinit std::array<std::atomic<Pools>, kDevices> pools_of_device{};

bool device_has_pools(const Driver& driver, CUdevice device) {
  if (device < 0 || device >= kDevices) return false;
  std::atomic<Pools>& known = pools_of_device[static_cast<std::size_t>(device)];
  if (known.load(std::memory_order_relaxed) == Pools::Unknown) {
    int supported = 0;
    const CUresult result = driver.device_get_attribute(
        &supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
    if (result != CUDA_SUCCESS) return false;
    known.store(supported != 0 ? Pools::Present : Pools::Missing, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed) == Pools::Present;
}

// The driver's stream-ordered memory outlives the context of the call, and ours does not. So
// only the primary context is served: nearly every program keeps it to its end.
constinit std::array<std::atomic<CUcontext>, kDevices> primaries{};
constinit std::atomic<CUcontext> latest_primary{nullptr};  // one of them

bool is_primary(Allocator& core, CUcontext context, CUdevice device) {
  std::atomic<CUcontext>& known = primaries[static_cast<std::size_t>(device)];
  if (known.load(std::memory_order_relaxed) == nullptr)
    known.store(primary_context(core, device));
  const bool primary = known.load(std::memory_order_relaxed) == context;
  if (primary) latest_primary.store(context, std::memory_order_relaxed);
  return primary;
}

// From now on the program can observe which pool serves it.
CUresult note_pool(CUresult result, CUmemoryPool pool) {
  Allocator* const core = process::core();
  CUdevice device = 0;
  if (result == CUDA_SUCCESS && core != nullptr && !pools_matter.load() &&
      !is_default_pool(*core, pool, &device))
    count_default_pools(*core);
  return result;
}

}  // namespace

void context_ended(CUcontext context) {
  const auto forget = [context](std::atomic<CUcontext>& known) {
    CUcontext expected = context;
    known.compare_exchange_strong(expected, nullptr);
  };
  std::for_each(primaries.begin(), primaries.end(), forget);
  forget(latest_primary);
}

void leave_to_driver() {
  pools_matter.store(true);
}

void count_default_pools(Allocator& core) {
  int devices = 0;
  if (pools_matter.exchange(true) || core.config().caching == Caching::Never ||
      core.driver().device_get_count(&devices) != CUDA_SUCCESS)
    return;
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemoryPool pool = nullptr;
    if (device_has_pools(core.driver(), device) &&
        real::default_pool(device, &pool) == CUDA_SUCCESS)
      own_pools::adopt(core, pool, device, primaries[static_cast<std::size_t>(device)].load());
  }
}

bool is_default_here(Allocator& core, CUmemoryPool pool) {
  CUdevice device = 0;
  CUmemoryPool its = nullptr;
  return pool != nullptr && !pools_matter.load(std::memory_order_relaxed) &&
         core.driver().ctx_get_device(&device) == CUDA_SUCCESS &&
         real::default_pool(device, &its) == CUDA_SUCCESS && its == pool;
}

bool is_default_pool(Allocator& core, CUmemoryPool pool, CUdevice* device) {
  int count = 0;
  if (core.driver().device_get_count(&count) != CUDA_SUCCESS) return true;
  for (*device = 0; *device < count; ++*device) {
    CUmemoryPool its = nullptr;
    const CUresult told = real::default_pool(*device, &its);
    if (told == hooks::kNoEntry || (told == CUDA_SUCCESS && its == pool)) return true;
  }
  return false;
}

bool allows_reuse(CUmemPool_attribute attribute, const void* value) {
  return (attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
          attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
          attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) &&
         *static_cast<const int*>(value) != 0;
}

bool admits(
    Allocator& core, CUcontext context, CUstream stream, NullStream null, CUdevice* device) {
  const Driver& driver = core.driver();
  if (driver.ctx_get_device(device) != CUDA_SUCCESS || !device_has_pools(driver, *device) ||
      !is_primary(core, context, *device) || captures::is_capturing(core, stream, null))
    return false;
  CUcontext of_stream = context;
  return is_default_stream(stream) ||
         (driver.stream_get_ctx(stream, &of_stream) == CUDA_SUCCESS && of_stream == context);
}

std::optional<Status> allocate(
    Allocator& core, CUstream stream, NullStream null, Bytes bytes, Address* out) {
  const Driver& driver = core.driver();
  CUcontext context = nullptr;
  if (bytes == 0 || pools_matter.load(std::memory_order_relaxed) ||
      core.config().caching == Caching::Never ||
      driver.ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) {
    return std::nullopt;
  }
  // If all pools of the context were checked before, the thread cache needs no other check.
  if (latest_primary.load(std::memory_order_relaxed) == context) {
    if (const Address hit = core.try_allocate_on(context, stream, null, bytes); hit != 0) {
      *out = hit;
      return Status();
    }
  }
  CUdevice device = 0;
  if (!admits(core, context, stream, null, &device)) return std::nullopt;
  if (!core.config().guard.any()) return core.allocate_on(context, stream, null, bytes, out);
  // It is not known later which guarded blocks a default pool has, so they are counted.
  count_default_pools(core);
  CUmemoryPool pool = nullptr;
  return real::default_pool(device, &pool) == CUDA_SUCCESS
             ? own_pools::allocate(core, pool, stream, null, bytes, out)
             : std::nullopt;
}

}  // namespace async_memory

namespace handlers {
namespace {

// A thread without a context may allocate on a stream that the program made: the stream knows
// its own.
template <typename Serve>
std::optional<Status> served(Allocator& core, CUstream stream, Serve serve) {
  if (const std::optional<Status> status = serve()) return status;
  const DeviceScope scope(core, stream);
  return scope.entered() ? serve() : std::nullopt;
}

// The driver serves it out of `pool`; null: out of the current one. If the stream captures, the
// call makes a node of a graph, which allocates when it runs.
template <typename Call>
CUresult pass_on(passed::Kind kind,
                 CUmemoryPool pool,
                 CUstream stream,
                 NullStream null,
                 Bytes bytes,
                 Call call) {
  Allocator* const core = process::core();
  if (core == nullptr || (captures::under_way() && captures::is_capturing(*core, stream, null)))
    return call();
  CUresult result = CUDA_SUCCESS;
  if (charges::counts(*core)) {
    const DeviceScope scope(*core, stream);
    CUdevice device = charges::current_device();
    if (pool == nullptr) (void)real::current_pool(device, &pool);
    result = charges::around_pool(*core, pool, bytes, call);
  } else {
    result = call();
  }
  if (result == CUDA_SUCCESS) passed::table().count(kind, bytes);
  return result;
}

}  // namespace

CUresult mem_alloc_async(Real<CUdeviceptr*, Count, CUstream> real,
                         NullStream null,
                         CUdeviceptr* out,
                         Count bytes,
                         CUstream stream) {
  Allocator* const core = process::core();
  if (core != nullptr && out != nullptr) {
    Address address = 0;
    const auto status = served(*core, stream, [&] {
      const auto common = async_memory::allocate(*core, stream, null, bytes, &address);
      return common ? common
                    : own_pools::allocate_current(*core, stream, null, bytes, &address);
    });
    if (status) {
      *out = address;  // null where it failed, as the driver has it
      return status->code();
    }
  }
  return pass_on(passed::Kind::Ordered, nullptr, stream, null, bytes, [&] {
    return hooks::retry_after_trim(real, [&](auto* call) { return call(out, bytes, stream); });
  });
}

CUresult mem_alloc_from_pool(Real<CUdeviceptr*, Count, CUmemoryPool, CUstream> real,
                             NullStream null,
                             CUdeviceptr* out,
                             Count bytes,
                             CUmemoryPool pool,
                             CUstream stream) {
  Allocator* const core = process::core();
  if (core != nullptr && out != nullptr) {
    Address address = 0;
    const auto status = served(*core, stream, [&]() -> std::optional<Status> {
      const auto own = own_pools::allocate(*core, pool, stream, null, bytes, &address);
      if (own || own_pools::is_own(pool) || !async_memory::is_default_here(*core, pool))
        return own;
      return async_memory::allocate(*core, stream, null, bytes, &address);
    });
    if (status) {
      *out = address;  // null where it failed, as the driver has it
      return status->code();
    }
  }
  return pass_on(passed::Kind::Pool, pool, stream, null, bytes, [&] {
    return hooks::retry_after_trim(real,
                                   [&](auto* call) { return call(out, bytes, pool, stream); });
  });
}

CUresult mem_free_async(Real<CUdeviceptr, CUstream> real,
                        NullStream null,
                        CUdeviceptr address,
                        CUstream stream) {
  if (Allocator* const core = process::core(); core != nullptr && address != 0) {
    const std::optional<Status> status = core->free_on(address, stream, null);
    if (!status) return charges::around_free(address, [&] { return real(address, stream); });
    return status->ok() ? CUDA_SUCCESS : hooks::unless_broken(*core, status->code());
  }
  return process::left_behind(address) ? process::driver_says() : real(address, stream);
}

CUresult device_set_mem_pool(Real<CUdevice, CUmemoryPool> real,
                             NullStream,
                             CUdevice device,
                             CUmemoryPool pool) {
  const CUresult result = real(device, pool);
  return async_memory::note_pool(result, pool);
}

CUresult mem_set_mem_pool(Real<void*, int, CUmemoryPool> real,
                          NullStream,
                          void* location,
                          int type,
                          CUmemoryPool pool) {
  const CUresult result = real(location, type, pool);
  return async_memory::note_pool(result, pool);
}

// A release threshold only advises how much to cache, and custash caches. Reuse is allowed from
// the beginning; PyTorch allows it again.
CUresult pool_set_attribute(Real<CUmemoryPool, CUmemPool_attribute, void*> real,
                            NullStream,
                            CUmemoryPool pool,
                            CUmemPool_attribute attribute,
                            void* value) {
  const CUresult result = real(pool, attribute, value);
  Allocator* const core = process::core();
  if (core == nullptr || result != CUDA_SUCCESS) return result;
  const bool advises = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ||
                       async_memory::allows_reuse(attribute, value);
  const Bytes older = advises ? 0 : async_memory::counted(*core, pool);
  own_pools::attribute_set(*core, pool, attribute, value, older);
  return result;
}

CUresult pool_set_access(Real<CUmemoryPool, const CUmemAccessDesc*, Count> real,
                         NullStream,
                         CUmemoryPool pool,
                         const CUmemAccessDesc* map,
                         Count count) {
  const CUresult result = real(pool, map, count);
  Allocator* const core = process::core();
  if (core == nullptr || result != CUDA_SUCCESS || map == nullptr) return result;
  CUdevice device = 0;
  if (async_memory::is_default_pool(*core, pool, &device))
    async_memory::count_default_pools(*core);
  own_pools::access_set(*core, pool, map, count);
  return result;
}

}  // namespace handlers
}  // namespace custash
