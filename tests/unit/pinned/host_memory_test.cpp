// SPDX-License-Identifier: MIT
// Where new pinned memory comes from: mapped and registered, or the driver's; and back.
#include "tests/unit/pinned/bed.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace custash;

namespace {

constexpr Bytes kBytes = 3_MiB;

// A driver whose devices lack one attribute.
Driver lacking(CUdevice_attribute attribute) {
  static CUdevice_attribute lacked;
  static CUresult (*real)(int*, CUdevice_attribute, CUdevice);
  Driver driver = sim::make_driver();
  lacked = attribute;
  real = driver.device_get_attribute;
  driver.device_get_attribute = [](int* value, CUdevice_attribute which, CUdevice device) {
    const CUresult result = real(value, which, device);
    if (which == lacked) *value = 0;
    return result;
  };
  return driver;
}

struct Memory {
  explicit Memory(const Driver& driver) : driver(driver), memory(this->driver, config) {}

  HostMemoryRange obtain(unsigned flags = 0) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    HostMemoryRange range;
    REQUIRE(memory.obtain(context, kBytes, flags, &range).ok());
    CHECK(range.size == kBytes);
    CHECK(range.base % 4_KiB == 0);
    // All of it is there.
    for (Address at = range.base; at < range.base + kBytes; at += 4_KiB)
      *reinterpret_cast<volatile char*>(at) = 1;
    return range;
  }

  void release(const HostMemoryRange& range) {
    CUcontext context = nullptr;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(memory.release(context, range).ok());
    CHECK(sim::live_host_blocks() == 0);
    CHECK_FALSE(is_mapped(range.base));
    CHECK_FALSE(is_mapped(range.base + kBytes - 4_KiB));
  }

  static bool is_mapped(Address page) {
    return msync(reinterpret_cast<void*>(page), 4_KiB, MS_ASYNC) == 0;
  }

  Config config;
  const Driver driver;
  HostMemory memory;
};

}  // namespace

TEST_CASE("new memory is mapped by us and registered", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  for (const auto& [flags, told] : {std::pair{0U, 2U}, {1U, 3U}}) {
    const HostMemoryRange range = memory.obtain(flags);
    CHECK(range.origin == HostOrigin::Registered);
    CHECK(range.base % 2_MiB == 0);
    unsigned seen = 0;
    CHECK(cuMemHostGetFlags(&seen, reinterpret_cast<void*>(range.base)) == CUDA_SUCCESS);
    CHECK(seen == told);
    memory.release(range);
  }
  CHECK(sim::count("cuMemHostAlloc") == 0);
}

TEST_CASE("the driver's own allocation is the other way", "[host_memory]") {
  const sim::Sim world;
  const auto from_driver = [](Memory& memory, unsigned flags) {
    const HostMemoryRange range = memory.obtain(flags);
    CHECK(range.origin == HostOrigin::Driver);
    memory.release(range);
  };
  Memory memory(world.driver());
  from_driver(memory, CU_MEMHOSTALLOC_WRITECOMBINED);
  sim::fail_symbol("cuMemHostRegister_v2", 1, CUDA_ERROR_NOT_PERMITTED);
  from_driver(memory, 0);
  for (const int attribute : {91, 99}) {
    Memory without(lacking(static_cast<CUdevice_attribute>(attribute)));
    from_driver(without, 0);
  }
}

TEST_CASE("what could not be registered is unmapped", "[host_memory]") {
  const sim::Sim world;
  static Address refused = 0;
  Driver driver = world.driver();
  driver.mem_host_register = [](void* base, std::size_t, unsigned) {
    refused = reinterpret_cast<Address>(base);
    return CUDA_ERROR_NOT_PERMITTED;
  };
  Memory memory(driver);
  const HostMemoryRange range = memory.obtain();
  CHECK(range.origin == HostOrigin::Driver);
  REQUIRE(refused != 0);
  CHECK_FALSE((refused != range.base && Memory::is_mapped(refused)));
  memory.release(range);
}

TEST_CASE("the error is the driver's own", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  sim::fail_symbol("cuMemHostRegister_v2", 1, CUDA_ERROR_NOT_PERMITTED);
  sim::fail_symbol("cuMemHostAlloc", 1, CUDA_ERROR_OPERATING_SYSTEM);
  HostMemoryRange range;
  CHECK(memory.memory.obtain(world.context(), kBytes, 0, &range).code() ==
        CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(sim::live_host_blocks() == 0);
}

TEST_CASE("more than the system has is not touched but left to the driver", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  HostMemoryRange range;
  CHECK(memory.memory.obtain(world.context(), 1ULL << 50, 0, &range).code() ==
        CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("what cannot be unregistered stays mapped", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  const HostMemoryRange range = memory.obtain();
  sim::fail_symbol("cuMemHostUnregister", 1, CUDA_ERROR_UNKNOWN);
  CHECK(memory.memory.release(world.context(), range).code() == CUDA_ERROR_UNKNOWN);
  CHECK(Memory::is_mapped(range.base));
  CHECK(cuMemHostUnregister(reinterpret_cast<void*>(range.base)) == CUDA_SUCCESS);
  HostMemory::forget(range);
  CHECK_FALSE(Memory::is_mapped(range.base));
}

TEST_CASE("a forked child shares it, as it shares the driver's", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  for (const unsigned flags : {0U, unsigned{CU_MEMHOSTALLOC_WRITECOMBINED}}) {
    const HostMemoryRange range = memory.obtain(flags);
    auto* bytes = reinterpret_cast<volatile char*>(range.base);
    bytes[5] = 7;
    const pid_t child = fork();
    if (child == 0) {
      bytes[6] = static_cast<char>(bytes[5] + 1);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(bytes[6] == 8);
    memory.release(range);
  }
}

TEST_CASE("beside a capture memory is had without ending it", "[host_memory]") {
  const sim::Sim world;
  Memory memory(world.driver());
  const CUstream s = sim::make_stream();
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const HostMemoryRange range = memory.obtain();
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  memory.release(range);
}
