// SPDX-License-Identifier: MIT
// Pools that the program makes: what is asked of them, how much they say they use, and their
// end. Run once with the default options, once with pools:default. Sizes are whole granules,
// since drivers round, and each in its way.
#include "tests/conformance/pools_own.hpp"

#include "tests/conformance/properties.hpp"

namespace conformance {

CASE(pools_own_use) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  say_use(pool);
  void* a = take(pool, kBlock, stream);
  void* b = take(pool, 2 * kBlock, stream);
  say_use(pool);
  SAY(cudaFreeAsync(a, stream));
  say_use(pool);
  a = take(pool, kBlock, stream);
  SAY(cudaFreeAsync(b, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(pool);
  SAY(set_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  SAY(set_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
  say_use(pool);
  b = take(pool, kBlock, stream);
  say_use(pool);
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(pool);
  SAY(cudaFree(b));
  SAY(cudaDeviceSynchronize());
  // A driver of 580 counts what cudaFree frees as used for good. Custash does not.
  std::printf("# used after a plain free %llu\n",
              value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  SAY(cudaMemPoolDestroy(pool));
}

CASE(pools_own_threshold) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  for (const unsigned long long keep : {0ULL, ~0ULL}) {
    cudaMemPool_t pool = make_pool();
    SAY(value_of(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
    SAY(set_value(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, keep));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == keep);
    void* p = take(pool, 8 * kBlock, stream);
    SAY(cudaFreeAsync(p, stream));
    SAY(cudaStreamSynchronize(stream));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * kBlock);
    SAY(cudaMemPoolTrimTo(pool, 4 * kBlock));
    const unsigned long long kept = value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    std::printf("# kept %llu\n", kept);
    SAY(cudaMemPoolTrimTo(pool, 0));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    p = take(pool, kBlock, stream);
    SAY(cudaMemPoolTrimTo(pool, 0));  // what is in use stays
    SAY(cudaMemsetAsync(p, 1, kBlock, stream));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    SAY(cudaFreeAsync(p, stream));
    SAY(cudaStreamSynchronize(stream));
    SAY(cudaMemPoolDestroy(pool));
  }
}

// A pool keeps whole granules: blocks that are smaller share one, which stays while one of them
// is in use.
CASE(pools_own_granules) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  SAY(set_value(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ULL));
  const auto reserved = [&] { return value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); };
  constexpr std::size_t kSmall = 8 * kKiB;
  void* a = take(pool, kSmall, stream);
  void* b = take(pool, kSmall, stream);
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaStreamSynchronize(stream));
  const unsigned long long both = reserved();
  SAY(both >= 2 * kSmall);
  for (const std::size_t keep :
       {std::size_t{1024}, 24 * static_cast<std::size_t>(both), kSmall + 512}) {
    SAY(cudaMemPoolTrimTo(pool, keep));
    SAY(reserved() == both);
  }
  SAY(value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= both);
  SAY(cudaFreeAsync(b, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(reserved() == both);
  SAY(cudaMemPoolTrimTo(pool, 0));
  SAY(reserved());
  SAY(cudaMemPoolDestroy(pool));
}

CASE(pools_own_codes) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  void* p = &p;
  SAY(cudaMallocFromPoolAsync(&p, 0, pool, stream));
  SAY(p == nullptr);
  SAY(cudaMallocFromPoolAsync(&p, kTooLarge, pool, stream));
  SAY_WITH_LAST(p == nullptr);
  SAY_WITH_LAST(cudaMallocFromPoolAsync(static_cast<void**>(nullptr), 512, pool, stream));
  CUdeviceptr q = 7;
  const auto from_pool = CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync);
  SAY(from_pool(&q, std::size_t{0}, pool, static_cast<CUstream>(stream.handle)));
  SAY(from_pool(&q, kTooLarge, pool, static_cast<CUstream>(stream.handle)));
  SAY(from_pool(
      &q, std::size_t{512}, static_cast<CUmemoryPool>(nullptr), static_cast<CUstream>(stream)));
  for (const CUmemPool_attribute which : {CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                          CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
                                          CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                          CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT})
    SAY(set_value(pool, which, 4096));
  SAY(cudaMallocFromPoolAsync(&p, 512, pool, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY_WITH_LAST(cudaFreeAsync(p, stream));
  SAY(cudaMallocFromPoolAsync(&p, 512, pool, stream));
  SAY_WITH_LAST(cudaFreeAsync(at(p, 16), stream));
  SAY(cudaFree(p));
  SAY(cudaMemPoolDestroy(pool));
  SAY(cudaMemPoolDestroy(nullptr));
  cudaMemPool_t standard = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&standard, 0));
  SAY_WITH_LAST(cudaMemPoolDestroy(standard));
}

CASE(pools_own_reuse_policies) {
  SAY(cudaFree(nullptr));
  const Stream one;
  const Stream two;
  cudaMemPool_t pool = make_pool();
  for (const CUmemPool_attribute which : {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                                          CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                          CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    SAY(flag_of(pool, which));
    SAY(set_flag(pool, which, 1));
    SAY(flag_of(pool, which));
    void* p = take(pool, kBlock, one);
    SAY(set_flag(pool, which, 0));
    SAY(flag_of(pool, which));
    void* q = take(pool, kBlock, two);
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    SAY(cudaFreeAsync(p, one));
    SAY(cudaFreeAsync(q, two));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    SAY(set_flag(pool, which, 1));
    SAY(cudaDeviceSynchronize());
  }
  SAY(cudaMemPoolDestroy(pool));
}

CUmemoryPool pool_of(const void* block) {
  CUmemoryPool told = nullptr;
  SAY(call("cuPointerGetAttribute",
           static_cast<void*>(&told),
           static_cast<int>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
           address(block)));
  return told;
}

// Blocks outlive their pool and name it, and the handle may be given again.
CASE(pools_own_destroyed) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  std::vector<void*> live;
  for (int i = 0; i < 5; ++i) {
    cudaMemPool_t pool = make_pool();
    live.push_back(take(pool, kBlock, stream));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    SAY(cudaMemPoolDestroy(pool));
    SAY(pool_of(live.back()) == pool);
    SAY(cudaMemsetAsync(live.back(), i, kBlock, stream));
  }
  for (int i = 0; i < 5; ++i) {
    const auto word = static_cast<unsigned>(i) * 0x01010101U;
    SAY(wrong_words(live[static_cast<std::size_t>(i)], kBlock, word));
    SAY(cudaFreeAsync(live[static_cast<std::size_t>(i)], stream));
  }
  SAY(cudaStreamSynchronize(stream));
  cudaMemPool_t pool = make_pool();
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaMemPoolDestroy(pool));
}

CASE(pools_own_current) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  cudaMemPool_t standard = nullptr;
  cudaMemPool_t current = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&standard, 0));
  SAY(cudaDeviceSetMemPool(0, pool));
  void* p = nullptr;
  SAY(cudaMallocAsync(&p, kBlock, stream));
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaFreeAsync(p, stream));
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaDeviceSetMemPool(0, standard));
  SAY(cudaMallocAsync(&p, kBlock, stream));
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaDeviceSetMemPool(0, pool));
  SAY(cudaMemPoolDestroy(pool));
  SAY(cudaDeviceGetMemPool(&current, 0));
  SAY(current == standard);
  SAY(cudaMallocAsync(&p, kBlock, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
}

CASE(pools_own_describe) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pools[2] = {make_pool(), make_pool()};
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, kBlock, 5 * kBlock}) {
    for (cudaMemPool_t pool : pools) {
      void* p = take(pool, bytes, stream);
      SAY(pool_of(p) == pool);
      cudaPointerAttributes attributes{};
      SAY(cudaPointerGetAttributes(&attributes, p));
      SAY(attributes.type);
      CUdeviceptr base = 0;
      std::size_t size = 0;
      SAY(CU(cuMemGetAddressRange_v2, cuMemGetAddressRange)(&base, &size, address(p) + 50));
      SAY(base == address(p));
      std::printf("# size %zu\n", size);
      SAY(cudaFreeAsync(p, stream));
    }
  }
  SAY(cudaMemPoolDestroy(pools[0]));
  SAY(cudaMemPoolDestroy(pools[1]));
}

CASE(pools_own_access) {
  if (!have_devices(2)) return;
  SAY(cudaSetDevice(1));
  SAY(cudaFree(nullptr));
  SAY(cudaSetDevice(0));
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  void* before = take(pool, kBlock, stream);
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 0};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SAY(cudaMemPoolSetAccess(pool, &access, 1));
  access.location.id = 1;
  SAY(cudaMemPoolSetAccess(pool, &access, 1));
  void* after = take(pool, kBlock, stream);
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaMemsetAsync(before, 1, kBlock, stream));
  SAY(cudaMemsetAsync(after, 2, kBlock, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaSetDevice(1));
  void* copy = nullptr;
  SAY(cudaMalloc(&copy, kBlock));
  for (const void* source : {before, after}) {
    SAY(cudaMemcpy(copy, source, kBlock, cudaMemcpyDefault));
    SAY(wrong_words(copy, kBlock, source == before ? 0x01010101U : 0x02020202U));
  }
  SAY(cudaFree(copy));
  SAY(cudaSetDevice(0));
  SAY(cudaFreeAsync(before, stream));
  SAY(cudaFreeAsync(after, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolDestroy(pool));
}

// What a pool was asked for and custash does not keep: the driver's, and never different.
CASE(pools_own_of_other_kinds) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPoolProps shared = device_memory();
  shared.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool = make_pool(shared);
  if (pool != nullptr) {
    void* p = take(pool, kBlock, stream);
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    SAY(cudaFreeAsync(p, stream));
    SAY(cudaMemPoolDestroy(pool));
  }
  cudaMemPoolProps bounded = device_memory();
  const std::size_t most = 64 * kMiB;
  std::memcpy(reinterpret_cast<char*>(&bounded) +
                  offsetof(cudaMemPoolProps, win32SecurityAttributes) + sizeof(void*),
              &most,
              sizeof most);
  pool = make_pool(bounded);
  if (pool != nullptr) {
    void* p = take(pool, 32 * kMiB, stream);
    void* q = nullptr;
    SAY_WITH_LAST(cudaMallocFromPoolAsync(&q, 48 * kMiB, pool, stream));
    SAY(cudaFreeAsync(p, stream));
    SAY(cudaStreamSynchronize(stream));
    SAY(cudaMallocFromPoolAsync(&q, 48 * kMiB, pool, stream));
    SAY(cudaFreeAsync(q, stream));
    SAY(cudaMemPoolDestroy(pool));
  }
}

// The same by the driver's own entries.
CASE(pools_own_by_the_driver) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  const CUmemPoolProps props = properties::of_pool();
  CUmemoryPool pool = nullptr;
  SAY(CU(cuMemPoolCreate, cuMemPoolCreate)(&pool, &props));
  SAY(set_value(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 8 * kBlock));
  CUdeviceptr p = 0;
  SAY(CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync)(&p, kBlock, pool, stream.handle));
  say_use(pool);
  CUmemLocation here{};
  here.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccess_flags flags{};
  SAY(CU(cuMemPoolGetAccess, cuMemPoolGetAccess)(&flags, pool, &here));
  SAY(flags);
  const CUmemAccessDesc access = properties::access_of();
  SAY(CU(cuMemPoolSetAccess, cuMemPoolSetAccess)(pool, &access, std::size_t{1}));
  SAY(CU(cuMemFreeAsync, cuMemFreeAsync)(p, stream.handle));
  SAY(cudaStreamSynchronize(stream));
  SAY(CU(cuMemPoolTrimTo, cuMemPoolTrimTo)(pool, std::size_t{0}));
  say_use(pool);
  CUmemoryPool usual = nullptr;
  CUmemoryPool now = nullptr;
  SAY(CU(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)(&usual, CUdevice{0}));
  SAY(CU(cuDeviceSetMemPool, cuDeviceSetMemPool)(CUdevice{0}, pool));
  SAY(CU(cuDeviceGetMemPool, cuDeviceGetMemPool)(&now, CUdevice{0}));
  SAY(now == pool);
  SAY(CU(cuDeviceSetMemPool, cuDeviceSetMemPool)(CUdevice{0}, usual));
  SAY(CU(cuMemPoolDestroy, cuMemPoolDestroy)(pool));
}

// Pools for other processes, and what of them is in this one.
CASE(pools_own_exported) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPoolProps shared = device_memory();
  shared.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool = make_pool(shared);
  cudaMemPool_t plain = make_pool();
  int file = -1;
  SAY(call("cuMemPoolExportToShareableHandle",
           static_cast<void*>(&file),
           static_cast<CUmemoryPool>(plain),
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
           0ULL));
  if (pool == nullptr) return;
  const CUresult exported = call("cuMemPoolExportToShareableHandle",
                                 static_cast<void*>(&file),
                                 static_cast<CUmemoryPool>(pool),
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 0ULL);
  SAY(exported);
  if (exported == CUDA_SUCCESS) {
    CUmemoryPool imported = nullptr;
    SAY(call("cuMemPoolImportFromShareableHandle",
             &imported,
             reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
             0ULL));
    void* p = take(pool, kBlock, stream);
    CUmemPoolPtrExportData data{};
    SAY(call("cuMemPoolExportPointer", &data, address(p)));
    SAY(cudaFreeAsync(p, stream));
    SAY(cudaStreamSynchronize(stream));
  }
  SAY(cudaMemPoolDestroy(plain));
}

// In a capture the driver makes nodes of a graph.
CASE(pools_own_in_captures) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = make_pool();
  void* before = take(pool, kBlock, stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  void* p = take(pool, kBlock, stream);
  SAY(cudaMemsetAsync(p, 1, kBlock, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphInstantiate(&made, graph, 0));
  SAY(cudaGraphLaunch(made, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaFreeAsync(before, stream));
  SAY(cudaGraphExecDestroy(made));
  SAY(cudaGraphDestroy(graph));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolDestroy(pool));
}

CASE(pools_own_contents) {
  SAY(cudaFree(nullptr));
  cudaMemPool_t pool = make_pool();
  SAY(wrong_in_turns(pool));
  SAY(cudaDeviceSynchronize());
  SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaMemPoolDestroy(pool));
}

}  // namespace conformance
