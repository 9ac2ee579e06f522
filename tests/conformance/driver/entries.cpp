// SPDX-License-Identifier: MIT
// Entries of the driver that few programs call. Argument: which part. What is said must be the
// same bare and preloaded, but for the lines that begin with #.
#include "tests/conformance/driver/driver.hpp"
#include "tests/conformance/properties.hpp"

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace {

using namespace semantics;

constexpr std::size_t kMost = std::size_t{160} << 20U;  // of a device of 256 MiB

CUmemoryPool made(const CUmemPoolProps& properties) {
  CUmemoryPool pool = nullptr;
  SAY(call("cuMemPoolCreate", &pool, &properties));
  return pool;
}

// Gives a device access to what the pool gives.
void give_access(CUmemoryPool pool, int device) {
  const CUmemAccessDesc access = properties::access_of(device);
  SAY(call("cuMemPoolSetAccess", pool, &access, std::size_t{1}));
}

template <typename Value>
void set(CUmemoryPool pool, CUmemPool_attribute which, Value value) {
  SAY(call("cuMemPoolSetAttribute", pool, which, static_cast<void*>(&value)));
}

// Memory that custash keeps, if it is there, so that as much again does not fit beside it.
void fill_cache(const char* what) {
  CUdeviceptr block = 0;
  SAY(call("cuMemAlloc_v2", &block, kMost));
  SAY(call("cuMemFree_v2", block));
  std::printf("# %s %zu", what, reserved());
}

void cache_used() {
  std::printf(" %zu\n", reserved());
}

// Each allocates for itself what only custash's cache can make room for.
void relief() {
  start();
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  CUresult result = CUDA_SUCCESS;

  fill_cache("managed");
  result = call("cuMemAllocManaged", &block, kMost, unsigned{CU_MEM_ATTACH_GLOBAL});
  cache_used();
  SAY(result);
  SAY(call("cuMemFree_v2", block));

  fill_cache("pitch");
  result = call("cuMemAllocPitch_v2", &block, &pitch, std::size_t{1} << 20U, kMost >> 20U, 4U);
  cache_used();
  SAY(result);
  SAY(call("cuMemFree_v2", block));

  const CUmemAllocationProp pages = properties::of_pages();
  CUmemGenericAllocationHandle handle = 0;
  fill_cache("create");
  result = call("cuMemCreate", &handle, kMost, &pages, 0ULL);
  cache_used();
  SAY(result);
  SAY(call("cuMemRelease", handle));

  CUmemoryPool const pool = made(properties::of_pool());
  fill_cache("pool");
  result = call("cuMemAllocFromPoolAsync", &block, kMost, pool, CUstream{nullptr});
  cache_used();
  SAY(result);
  SAY(call("cuMemFreeAsync", block, CUstream{nullptr}));
}

// One allocation of rows: its pitch, its range, and whether custash serves it.
CUdeviceptr pitched(std::size_t width, std::size_t height, unsigned element) {
  CUdeviceptr block = 0;
  CUdeviceptr base = 0;
  std::size_t pitch = 0;
  std::size_t size = 0;
  const std::size_t before = allocated();
  SAY(call("cuMemAllocPitch_v2", &block, &pitch, width, height, element));
  std::printf("# served %d\n", allocated() != before);
  SAY(call("cuMemGetAddressRange_v2", &base, &size, block + 1));
  std::printf(
      "%zu rows of %zu: pitch %zu, size %zu, %d\n", height, width, pitch, size, base == block);
  return block;
}

// The driver serves the first of each width and element, whatever the height.
void pitched_rows() {
  start();
  for (const unsigned element : {4U, 16U}) {
    for (const std::size_t width : {100, 5000}) {
      for (const std::size_t height : {3, 3, 4000})
        SAY(call("cuMemFree_v2", pitched(width, height, element)));
    }
  }
  SAY(allocated());
}

// Rows that fit only where what is cached goes back: by the driver first, then by custash.
void pitched_full() {
  start();
  for (int i = 0; i < 2; ++i) {
    fill_cache("filled");
    cache_used();
    const CUdeviceptr rows = pitched(std::size_t{1} << 20U, kMost >> 20U, 4U);
    CUdeviceptr more = 0;
    std::size_t pitch = 0;
    SAY(call("cuMemAllocPitch_v2", &more, &pitch, std::size_t{1} << 20U, kMost >> 20U, 4U));
    SAY(call("cuMemFree_v2", rows));
  }
}

// Whether custash serves an allocation from the current pool.
void from_pool(const char* when, CUdevice device = 0) {
  CUdeviceptr block = 0;
  const std::size_t before = allocated(device);
  SAY(call("cuMemAllocAsync", &block, std::size_t{64} << 20U, CUstream{nullptr}));
  std::printf("# %s %d\n", when, allocated(device) != before);
  SAY(call("cuMemFreeAsync", block, CUstream{nullptr}));
  SAY(call("cuCtxSynchronize"));
}

// The same where the call names the pool of this device, and that of another.
void default_pool_named() {
  start();
  for (const CUdevice device : {0, 1}) {
    CUmemoryPool const pool = default_pool(device);
    CUdeviceptr block = 0;
    const std::size_t before = allocated();
    SAY(call(
        "cuMemAllocFromPoolAsync", &block, std::size_t{64} << 20U, pool, CUstream{nullptr}));
    std::printf("# %s %d\n", device == 0 ? "here" : "elsewhere", allocated() != before);
    CUmemoryPool told = nullptr;
    SAY(call("cuPointerGetAttribute",
             static_cast<void*>(&told),
             static_cast<int>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
             block));
    SAY(told == pool ? 0 : 1);
    SAY(call("cuMemFreeAsync", block, CUstream{nullptr}));
  }
  SAY(call("cuCtxSynchronize"));
}

void set_pool() {
  start();
  CUmemoryPool const standard = default_pool();
  CUmemoryPool const own = made(properties::of_pool());
  SAY(call("cuDeviceSetMemPool", CUdevice{0}, standard));
  from_pool("default");
  SAY(call("cuDeviceSetMemPool", CUdevice{0}, own));
  from_pool("own");
  SAY(call("cuDeviceSetMemPool", CUdevice{0}, standard));
  from_pool("again");
}

// Members that later toolkits have added: maxSize and usage.
CUmemPoolProps with_later(std::size_t most, unsigned short usage) {
  CUmemPoolProps wanted = properties::of_pool();
  auto* const at = reinterpret_cast<char*>(&wanted.win32SecurityAttributes) + sizeof(void*);
  std::memcpy(at, &most, sizeof most);
  std::memcpy(at + sizeof most, &usage, sizeof usage);
  return wanted;
}

// A policy that stays as it was changes nothing. PyTorch sets all of them.
void reuse_policies() {
  start();
  CUmemoryPool const pool = default_pool();
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});  // is no policy
  for (const int allowed : {1, 0}) {
    for (const auto which : {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                             CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                             CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES})
      set(pool, which, allowed);
    from_pool(allowed != 0 ? "allowed" : "forbidden");
  }
}

// Whether custash serves an allocation from that pool; it says nothing else.
void from_own(const char* when, CUmemoryPool pool, CUstream stream = nullptr) {
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{64} << 20U}) {
    CUdeviceptr block = 0;
    const std::size_t before = allocated();
    SAY(call("cuMemAllocFromPoolAsync", &block, bytes, pool, stream));
    std::printf("# %s %d\n", when, allocated() != before);
    SAY(call("cuMemFreeAsync", block, stream));
  }
  SAY(call("cuCtxSynchronize"));
}

// What makes a pool the driver's, and what does not.
void own_pools() {
  start();
  CUmemPoolProps wanted = properties::of_pool();
  CUmemoryPool pool = made(wanted);
  from_own("plain", pool);
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ULL);
  set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0ULL);
  set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1);
  SAY(call("cuMemPoolTrimTo", pool, std::size_t{0}));
  from_own("asked", pool);
  set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  from_own("policy", pool);
  SAY(call("cuMemPoolDestroy", pool));

  wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  from_own("exportable", made(wanted));
  pool = made(with_later(std::size_t{256} << 20U, 0));
  from_own("bounded", pool);
  CUdeviceptr blocks[2] = {};
  for (const std::size_t mib : {200, 100, 50})
    SAY(call("cuMemAllocFromPoolAsync", &blocks[mib == 200], mib << 20U, pool, CUstream{}));
  SAY(call("cuMemFreeAsync", blocks[1], CUstream{}));
  SAY(call("cuMemAllocFromPoolAsync", &blocks[1], std::size_t{180} << 20U, pool, CUstream{}));
  from_own("decompressed", made(with_later(0, 2)));
  from_own("unknown", made(with_later(0, 4)));
  from_own("elsewhere", made(properties::of_pool(1)));

  pool = made(properties::of_pool());
  give_access(pool, 0);
  from_own("itself", pool);
  give_access(pool, 1);
  from_own("others", pool);

  pool = made(properties::of_pool());
  SAY(call("cuDeviceSetMemPool", CUdevice{0}, pool));
  from_pool("current");
  CUcontext context = nullptr;
  SAY(call("cuCtxCreate_v2", &context, 0U, CUdevice{0}));
  from_own("context", pool);
}

// More pools than custash can count: those are the driver's, until others are destroyed.
void many_pools() {
  start();
  std::vector<CUmemoryPool> pools;
  const CUmemPoolProps wanted = properties::of_pool();
  for (int i = 0; i < 300; ++i) {
    CUmemoryPool pool = nullptr;
    if (call("cuMemPoolCreate", &pool, &wanted) != CUDA_SUCCESS) return;
    pools.push_back(pool);
  }
  from_own("first", pools.front());
  from_own("last", pools.back());
  for (CUmemoryPool pool : pools)
    SAY(call("cuMemPoolDestroy", pool));
  from_own("again", made(wanted));
}

// Handles that the program makes and maps. One is released while it is mapped, one after it,
// and one has a second reference.
void handles() {
  start();
  const std::size_t bytes = std::size_t{2} << 20U;
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle made[4] = {};
  CUmemGenericAllocationHandle again = 0;
  const CUmemAllocationProp wanted = properties::of_pages();
  for (CUmemGenericAllocationHandle& each : made)
    SAY(call("cuMemCreate", &each, bytes, &wanted, 0ULL));
  SAY(call("cuMemAddressReserve", &at, 4 * bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL));
  for (std::size_t i = 0; i < 3; ++i)
    SAY(call("cuMemMap", at + i * bytes, bytes, std::size_t{0}, made[i], 0ULL));
  SAY(call("cuMemRelease", made[0]));  // lives while it is mapped
  SAY(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(at + bytes)));
  SAY(call("cuMemUnmap", at + bytes, 2 * bytes));
  SAY(call("cuMemRelease", made[1]));  // lives by its second reference
  SAY(call("cuMemRelease", made[2]));  // ends
  SAY(call("cuMemRelease", made[3]));  // ends
}

void pool_access() {
  start();
  CUmemoryPool const pool = default_pool();
  from_pool("before");
  give_access(pool, 1);
  from_pool("after");
}

// What changes one device's default pool concerns no other's.
void pool_elsewhere() {
  start();
  CUmemoryPool const pools[2] = {default_pool(0), default_pool(1)};
  set(pools[0], CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  from_pool("policy");
  CUcontext context = nullptr;
  SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{1}));
  SAY(call("cuCtxSetCurrent", context));
  from_pool("elsewhere", 1);
  give_access(pools[1], 0);
  from_pool("access", 1);
}

// In a capture an allocation is a node; beside it, it is as ever.
void beside_a_capture() {
  start();
  CUstream streams[2] = {};
  CUdeviceptr blocks[2] = {};
  CUgraph graph = nullptr;
  for (CUstream& each : streams)
    SAY(call("cuStreamCreate", &each, unsigned{CU_STREAM_NON_BLOCKING}));
  SAY(call("cuStreamBeginCapture_v2", streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i : {0, 1}) {
    SAY(call("cuMemAllocAsync", &blocks[i], std::size_t{64} << 20U, streams[i]));
    SAY(call("cuMemFreeAsync", blocks[i], streams[i]));
  }
  SAY(call("cuStreamEndCapture", streams[0], &graph));
}

// A default pool that is trimmed: what custash keeps goes, what is in use stays.
void trimmed_pool() {
  start();
  CUmemoryPool const pool = default_pool();
  CUdeviceptr kept = 0;
  CUdeviceptr freed = 0;
  SAY(call("cuMemAllocAsync", &kept, std::size_t{64} << 20U, CUstream{nullptr}));
  SAY(call("cuMemAllocAsync", &freed, std::size_t{64} << 20U, CUstream{nullptr}));
  SAY(call("cuMemFreeAsync", freed, CUstream{nullptr}));
  SAY(call("cuCtxSynchronize"));
  SAY(call("cuMemPoolTrimTo", pool, std::size_t{128} << 20U));
  std::printf("# much %zu\n", reserved() >> 20U);
  SAY(call("cuMemPoolTrimTo", pool, std::size_t{0}));
  std::printf("# none %zu\n", reserved() >> 20U);
  SAY(call("cuMemsetD8_v2", kept, static_cast<unsigned char>(1), std::size_t{64} << 20U));
  SAY(call("cuMemFreeAsync", kept, CUstream{nullptr}));
}

// Both forms of the primary context's end, and what is left of its memory.
void primary_context() {
  for (const char* const ending : {"cuDevicePrimaryCtxRelease",
                                   "cuDevicePrimaryCtxRelease_v2",
                                   "cuDevicePrimaryCtxReset",
                                   "cuDevicePrimaryCtxReset_v2"}) {
    CUcontext context = start();
    CUdeviceptr live = 0;
    CUdeviceptr freed = 0;
    SAY(call("cuMemAlloc_v2", &live, std::size_t{1} << 20U));
    SAY(call("cuMemAlloc_v2", &freed, std::size_t{1} << 20U));
    SAY(call("cuCtxDestroy_v2", context));  // refused
    SAY(call("cuMemFree_v2", freed));
    SAY(call(ending, CUdevice{0}));
    SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}));
    SAY(call("cuCtxSetCurrent", context));
    SAY(call("cuMemFree_v2", live));  // died with the context
    SAY(call("cuMemAlloc_v2", &live, std::size_t{1} << 20U));
    SAY(call("cuMemFree_v2", live));
    SAY(call("cuDevicePrimaryCtxRelease_v2", CUdevice{0}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const which = argc > 1 ? argv[1] : "";
  if (std::strcmp(which, "relief") == 0) relief();
  if (std::strcmp(which, "pitched_rows") == 0) pitched_rows();
  if (std::strcmp(which, "pitched_full") == 0) pitched_full();
  if (std::strcmp(which, "set_pool") == 0) set_pool();
  if (std::strcmp(which, "handles") == 0) handles();
  if (std::strcmp(which, "own_pools") == 0) own_pools();
  if (std::strcmp(which, "many_pools") == 0) many_pools();
  if (std::strcmp(which, "reuse_policies") == 0) reuse_policies();
  if (std::strcmp(which, "default_pool") == 0) {
    start();
    from_pool("default");
  }
  if (std::strcmp(which, "default_pool_named") == 0) default_pool_named();
  if (std::strcmp(which, "pool_access") == 0) pool_access();
  if (std::strcmp(which, "pool_elsewhere") == 0) pool_elsewhere();
  if (std::strcmp(which, "beside_a_capture") == 0) beside_a_capture();
  if (std::strcmp(which, "trimmed_pool") == 0) trimmed_pool();
  if (std::strcmp(which, "primary_context") == 0) primary_context();
  return 0;
}
