// SPDX-License-Identifier: MIT
// The entry points for frameworks, in C++ and without a device's kernels: PyTorch's pair, the
// memory resource, the allocators. Preloaded. Prints a line for each expectation that does not
// hold.
#define CUSTASH_PRELOADED
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include "tests/process/expect.hpp"

#include <cstdio>
#include <cstring>
#include <stdexcept>

#if __has_include(<cuda/memory_resource>) && __has_include(<thrust/device_ptr.h>)
#define HAS_CCCL
#include "interpose/api/custash_resource.hpp"
#include "interpose/api/custash_thrust.hpp"
#else
#include "interpose/api/custash_calls.hpp"
#endif

namespace {

void pytorch_pair() {
  auto* const take = reinterpret_cast<decltype(&custash_torch_malloc)>(
      dlsym(RTLD_DEFAULT, "custash_torch_malloc"));
  auto* const give = reinterpret_cast<decltype(&custash_torch_free)>(
      dlsym(RTLD_DEFAULT, "custash_torch_free"));
  void* const memory = take(1 << 20, 0, nullptr);
  EXPECT(memory != nullptr && allocated() >= 1 << 20);
  give(memory, 1 << 20, 0, nullptr);
  EXPECT(allocated() == 0);
  for (const std::size_t size : {std::size_t{1} << 45, std::size_t{512}}) {
    const bool full = size != 512;
    bool caught = false;
    try {
      take(size, full ? 0 : 99, nullptr);
    } catch (const std::runtime_error& error) {
      // PyTorch programs look for these words.
      caught = (std::strstr(error.what(), "CUDA out of memory. ") == error.what()) == full &&
               std::strstr(error.what(), full ? "on device 0" : "INVALID_VALUE") != nullptr;
      if (!caught) std::printf("# %s\n", error.what());
    }
    EXPECT(caught);
    EXPECT(std::uncaught_exceptions() == 0);
  }
}

#ifdef HAS_CCCL
template <typename Take>
bool refuses(Take take, custash_status_t status) {
  try {
    take();
  } catch (const custash::bad_alloc& error) {
    return error.status() == status;
  }
  return false;
}

void resource() {
  const cuda::stream_ref stream{cudaStream_t{}};
  custash::device_resource memory;
  void* const a = memory.allocate_async(5000, stream);
  void* const b = memory.allocate_sync(3 << 20);
  void* const c = memory.allocate(stream, 100, 256);
  EXPECT(a != nullptr && b != nullptr && c != nullptr && a != c);
  EXPECT(allocated() >= 5000 + (3 << 20) + 100);
  memory.deallocate_async(a, 5000, stream);
  memory.deallocate(b, 3 << 20);
  memory.deallocate(stream, c, 100, 256);
  EXPECT(allocated() == 0);
  EXPECT(refuses([&] { memory.allocate(100, 4096); }, CUSTASH_ERROR_INVALID_VALUE));
  EXPECT(refuses([&] { memory.allocate(std::size_t{1} << 45); }, CUSTASH_ERROR_OUT_OF_MEMORY));
  EXPECT(
      refuses([] { custash::device_resource(99).allocate(1); }, CUSTASH_ERROR_INVALID_VALUE));
  EXPECT(memory == custash::device_resource(1));
}

void allocators() {
  custash::device_allocator<double> memory;
  const auto some = memory.allocate(1000);
  EXPECT(some.get() != nullptr && allocated() >= 8000);
  memory.deallocate(some, 1000);
  EXPECT(refuses([&] { memory.allocate(std::size_t{1} << 61); }, CUSTASH_ERROR_OUT_OF_MEMORY));
  custash::temporary_allocator temporary(nullptr);
  char* const bytes = temporary.allocate(1000);
  temporary.deallocate(bytes, 1000);
  EXPECT(temporary.allocate(1000) == bytes);  // the same stream has it at once
  temporary.deallocate(bytes, 1000);
  EXPECT(allocated() == 0);
}
#endif

}  // namespace

int main() {
  pytorch_pair();
#ifdef HAS_CCCL
  resource();
  allocators();
#else
  std::printf("# no CCCL here\n");
#endif
  if (failures == 0) std::printf("all right\n");
  return failures != 0;
}
