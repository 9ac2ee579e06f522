// SPDX-License-Identifier: MIT
// Memory of the simulated driver: sizes, codes, waits, virtual memory, pinned memory, pools,
// data.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <cstring>

using namespace custash;
using namespace custash::sim;

namespace {

struct Page {
  explicit Page(Bytes bytes = 2_MiB) : made(make_page(&handle, bytes)) {}

  CUmemGenericAllocationHandle handle = 0;
  CUresult made;
};

}  // namespace

TEST_CASE("sizes and codes of cuMemAlloc and cuMemFree", "[sim-memory]") {
  const Sim sim({.device_memory = 64_MiB});
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc(&p, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc(&p, 65_MiB) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr a = make_block(1);
  const CUdeviceptr b = make_block(1);
  CHECK(b - a == 512);
  CHECK(used(0) == 2_MiB);
  const CUdeviceptr c = make_block(2'100'000);
  CHECK(used(0) == 6_MiB);
  CHECK(c % 2_MiB == 0);
  CHECK(cuMemFree(0) == CUDA_SUCCESS);
  CHECK(cuMemFree(c + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(c) == CUDA_SUCCESS);
  CHECK(cuMemFree(c) == CUDA_ERROR_INVALID_VALUE);
  CHECK(make_block(2'100'000) == c);  // last in, first out
  CHECK(cuMemFree(a) == CUDA_SUCCESS);
  CHECK(cuMemFree(b) == CUDA_SUCCESS);
  CHECK(used(0) == 4_MiB);
  CHECK(cuMemFree(c) == CUDA_SUCCESS);
  CHECK(used(0) == 0);
  CHECK(make_block(64_MiB) != 0);
  CHECK(cuMemAlloc(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("addresses are never used again where that is asked for", "[sim-memory]") {
  const Sim sim({.reuse = AddressReuse::Never});
  for (const Bytes bytes : {Bytes{100}, 3_MiB}) {
    const CUdeviceptr a = make_block(bytes);
    CHECK(cuMemFree(a) == CUDA_SUCCESS);
    CHECK(make_block(bytes) != a);
  }
}

TEST_CASE("what the driver says about an address", "[sim-memory]") {
  const Sim sim;
  const CUdeviceptr p = make_block(5000);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, &size, p + 100) == CUDA_SUCCESS);
  CHECK(base == p);
  CHECK(size == 5000);
  CHECK(cuMemGetAddressRange(nullptr, nullptr, p) == CUDA_SUCCESS);
  unsigned type = 0;
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) ==
        CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* out = &type;
  type = 7;
  CHECK(cuPointerGetAttributes(1, &which, &out, p) == CUDA_SUCCESS);
  CHECK(type == 0);
  for (const auto& [width, pitch] :
       {std::pair{1, 512}, {100, 512}, {513, 1024}, {1000, 1024}, {70000, 70144}}) {
    CUdeviceptr q = 0;
    std::size_t got = 0;
    CHECK(cuMemAllocPitch(&q, &got, static_cast<std::size_t>(width), 3, 4) == CUDA_SUCCESS);
    CHECK(got == static_cast<std::size_t>(pitch));
  }
  std::size_t all = 0;
  CHECK(cuMemGetInfo(nullptr, &all) == CUDA_SUCCESS);
  CHECK(all == 8_GiB);
}

TEST_CASE("a free waits for the block's own device and for no other", "[sim-memory]") {
  const Sim sim({.advance = Advance::Timed});
  CUcontext other = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(other) == CUDA_SUCCESS);
  const CUdeviceptr there = make_block(1_MiB);
  CHECK(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
  const CUdeviceptr here = make_block(1_MiB);
  const CUstream s = make_stream();
  CHECK(launch(s, {.duration = 60'000'000}) == CUDA_SUCCESS);
  const Nanoseconds begin = now();
  CHECK(cuMemFree(there) == CUDA_SUCCESS);
  CHECK(now() - begin < 1'000'000);
  CHECK(cuMemFree(here) == CUDA_SUCCESS);
  CHECK(now() - begin > 59'000'000);
}

TEST_CASE("one page at two addresses is the same memory", "[sim-memory]") {
  const Sim sim({.data = true});
  const CUdeviceptr range = reserve(8_MiB);
  const Page page;
  REQUIRE(page.made == CUDA_SUCCESS);
  CHECK(cuMemMap(range, 2_MiB, 0, page.handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(range + 4_MiB, 2_MiB, 0, page.handle, 0) == CUDA_SUCCESS);
  CHECK(allow(range, 2_MiB) == CUDA_SUCCESS);
  CHECK(allow(range + 4_MiB, 2_MiB) == CUDA_SUCCESS);
  CHECK(translate(range + 100, 1)[0].physical == translate(range + 4_MiB + 100, 1)[0].physical);
  CHECK(cuMemsetD8Async(range, 0x5a, 1024, nullptr) == CUDA_SUCCESS);
  unsigned char back[1024] = {};
  CHECK(cuMemcpyDtoH(back, range + 4_MiB, sizeof back) == CUDA_SUCCESS);
  CHECK(back[1023] == 0x5a);
  CHECK(cuMemRelease(page.handle) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(range, 2_MiB) == CUDA_SUCCESS);
  CHECK(used(0) == 2_MiB);  // in use until its last mapping is gone
  CHECK(cuMemUnmap(range + 4_MiB, 2_MiB) == CUDA_SUCCESS);
  CHECK(used(0) == 0);
  CHECK(live_handles() == 0);
  CHECK(cuMemAddressFree(range, 8_MiB) == CUDA_SUCCESS);
}

TEST_CASE("mistakes with virtual memory have the driver's codes", "[sim-memory]") {
  const Sim sim;
  const CUdeviceptr range = reserve(16_MiB);
  const Page page(4_MiB);
  CHECK(Page(1000).made == CUDA_ERROR_INVALID_VALUE);
  CHECK(Page(16_GiB).made == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemMap(range, 2_MiB, 2_MiB, page.handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(range + 14_MiB, 4_MiB, 0, page.handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(range, 4_MiB, 0, page.handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(range + 2_MiB, 4_MiB, 0, page.handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(range, 2_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(range, 8_MiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(range, 16_MiB) == CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle ipc{};
  CHECK(cuIpcGetMemHandle(&ipc, range) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(range) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("work over memory without access is a fault that sticks", "[sim-memory]") {
  const Sim sim;
  const CUdeviceptr range = reserve(2_MiB);
  const Page page;
  CHECK(cuMemMap(range, 2_MiB, 0, page.handle, 0) == CUDA_SUCCESS);
  CHECK(launch(nullptr, {.accesses = {{range, 64, true}}}) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE(faults().size() == 1);
  CHECK(faults()[0].touch.address == range);
  CHECK(cuMemFree(0) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("kernels reach another device's memory only with peer access", "[sim-memory]") {
  const Sim sim;
  const CUdeviceptr p = make_block(4096);
  CUcontext other = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(other) == CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(sim.context(), 0) == CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(sim.context(), 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CHECK(launch(nullptr, {.accesses = {{p, 64, true}}}) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuCtxDisablePeerAccess(sim.context()) == CUDA_SUCCESS);
  CHECK(launch(nullptr, {.accesses = {{p, 64, true}}}) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("pinned memory: flags, pointers, registration", "[sim-memory]") {
  const Sim sim;
  for (const auto& [bytes, asked, told] : {std::tuple{100U, 0U, 2U},
                                           {100U, 1U, 2U},
                                           {100U, 2U, 2U},
                                           {100U, 4U, 6U},
                                           {1U << 20U, 7U, 6U},
                                           {(1U << 20U) + 1, 1U, 3U},
                                           {(1U << 20U) + 1, 7U, 7U}}) {
    void* p = nullptr;
    unsigned flags = 0;
    CUdeviceptr d = 0;
    CHECK(cuMemHostAlloc(&p, bytes, asked) == CUDA_SUCCESS);
    CHECK(cuMemHostGetFlags(&flags, p) == CUDA_SUCCESS);
    CHECK(flags == told);
    CHECK(cuMemHostGetDevicePointer(&d, p, 0) == CUDA_SUCCESS);
    CHECK(d == reinterpret_cast<CUdeviceptr>(p));
    CHECK(cuMemHostRegister(p, 100, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeHost(p) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(p) == CUDA_ERROR_INVALID_VALUE);
  }
  void* none = &none;
  CHECK(cuMemHostAlloc(&none, 0, 0) == CUDA_SUCCESS);
  CHECK(none == nullptr);
  none = &none;
  CHECK(cuMemHostAlloc(&none, ~std::size_t{0}, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(none == nullptr);
  CHECK(cuMemHostAlloc(&none, 100, 8) == CUDA_ERROR_INVALID_VALUE);
  char own[256];
  CHECK(cuMemHostRegister(own, sizeof own, 0) == CUDA_SUCCESS);
  CHECK(cuMemHostRegister(own + 10, 20, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(cuMemHostUnregister(own) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(own) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("stream-ordered memory is reused at once on its stream, later on others",
          "[sim-memory]") {
  const Sim sim;
  const auto [a, b] = make_streams<2>();
  CUdeviceptr p = 0;
  CUdeviceptr q = 0;
  CHECK(cuMemAllocAsync(&p, 4_MiB, a) == CUDA_SUCCESS);
  CHECK(launch(a, {.accesses = {{p, 4_MiB, true}}}) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(p, a) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(p, a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocAsync(&q, 4_MiB, b) == CUDA_SUCCESS);
  CHECK(q != p);
  CHECK(cuMemAllocAsync(&q, 4_MiB, a) == CUDA_SUCCESS);
  CHECK(q == p);
  CHECK(cuMemFreeAsync(q, a) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(faults().empty());
  CHECK(used(0) == 4_MiB);  // released at the synchronisation
}

TEST_CASE("bytes really move, and fresh memory reads as zeros", "[sim-memory]") {
  const Sim sim({.data = true});
  const std::size_t n = GENERATE(1000, 3000000);
  const CUdeviceptr p = make_block(n);
  CHECK(*reinterpret_cast<unsigned char*>(p + n - 1) == 0);
  std::vector<unsigned char> from(n, 7);
  std::vector<unsigned char> to(n, 1);
  CHECK(cuMemcpyHtoDAsync(p, from.data(), n, nullptr) == CUDA_SUCCESS);
  from.assign(n, 9);  // pageable: taken at the call
  CHECK(cuMemcpyDtoH(to.data(), p, n) == CUDA_SUCCESS);
  CHECK(to == std::vector<unsigned char>(n, 7));
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
  const CUdeviceptr q = make_block(n);
  CHECK(q == p);
  CHECK(*reinterpret_cast<unsigned char*>(q + n - 1) == 0);
}

TEST_CASE("a copy from pinned memory reads it when it runs", "[sim-memory]") {
  const Sim sim({.data = true});
  const CUdeviceptr p = make_block(64);
  void* pinned = nullptr;
  CHECK(cuMemAllocHost(&pinned, 64) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoDAsync(p, pinned, 64, nullptr) == CUDA_SUCCESS);
  std::memset(pinned, 3, 64);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<unsigned char*>(p) == 3);
}

TEST_CASE("a copy to or from a null pointer is refused", "[sim-memory]") {
  const Sim sim({.data = true});
  const CUdeviceptr p = make_block(64);
  CHECK(cuMemcpyHtoDAsync(p, nullptr, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoHAsync(nullptr, p, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoDAsync(0, p, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyHtoD(p, nullptr, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyHtoDAsync(p, nullptr, 0, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("an IPC handle does not open in its own process", "[sim-memory]") {
  const Sim sim({.data = true});
  const CUdeviceptr p = make_block(5000);
  CUipcMemHandle handle{};
  CUdeviceptr q = 0;
  CHECK(cuIpcGetMemHandle(&handle, p + 100) == CUDA_SUCCESS);
  CHECK(cuIpcOpenMemHandle(&q, handle, 1) == CUDA_ERROR_INVALID_CONTEXT);
}
