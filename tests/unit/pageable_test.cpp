// SPDX-License-Identifier: MIT
// What counts as memory of the host that kernels reach by themselves.
#include "interpose/hooks/host_ranges.hpp"
#include "tests/catch.hpp"

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

using namespace custash;

namespace {

Address of(const void* place) {
  return reinterpret_cast<Address>(place);
}

int asked = 0;

CUresult CUDAAPI two_devices(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}

// The second device reaches it.
CUresult CUDAAPI tell(int* value, CUdevice_attribute attribute, CUdevice device) {
  ++asked;
  if (attribute != CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
    return CUDA_ERROR_INVALID_VALUE;
  *value = device;
  return CUDA_SUCCESS;
}

}  // namespace

TEST_CASE("an address is of memory where the process has mapped something") {
  static int variable = 0;
  int local = 0;
  const auto heap = std::make_unique<int>(0);
  const std::unique_ptr<void, decltype(&std::free)> large(std::malloc(64_MiB), &std::free);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const two = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(two != MAP_FAILED);
  for (const void* place : {static_cast<const void*>(&variable),
                            static_cast<const void*>(&local),
                            static_cast<const void*>(heap.get()),
                            static_cast<const void*>(large.get()),
                            static_cast<const void*>(two)})
    CHECK(pageable::is_mapped(of(place)));
  CHECK(pageable::is_mapped(of(large.get()) + 64_MiB - 1));  // not touched yet
  CHECK(pageable::is_mapped(of(two) + page + 5));
  REQUIRE(munmap(static_cast<char*>(two) + page, page) == 0);
  CHECK(pageable::is_mapped(of(two) + page - 1));
  CHECK_FALSE(pageable::is_mapped(of(two) + page));
  munmap(two, page);
}

TEST_CASE("numbers are no addresses") {
  int local = 0;
  const Address top = std::bit_ceil(of(&local));
  errno = 7;
  CHECK_FALSE(pageable::is_mapped(0));
  CHECK_FALSE(pageable::is_mapped(12));
  CHECK_FALSE(pageable::is_mapped(20'000ULL << 32U | 30'000U));  // two in one word
  CHECK_FALSE(pageable::is_mapped(std::bit_cast<Address>(1.0)));
  CHECK_FALSE(pageable::is_mapped(~Address{0}));
  CHECK_FALSE(pageable::is_mapped(top));
  CHECK_FALSE(pageable::is_mapped(top / 2 + (1ULL << 30U)));  // nothing is mapped there
  CHECK(errno == 7);
}

TEST_CASE("the driver is asked once whether kernels reach it") {
  Driver driver{};
  driver.device_get_count = two_devices;
  driver.device_get_attribute = tell;
  CHECK(pageable::is_reached(driver));
  CHECK(asked == 2);
  CHECK(pageable::is_reached(driver));
  CHECK(asked == 2);
}
