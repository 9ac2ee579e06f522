// SPDX-License-Identifier: MIT
// RMM's own containers over custash::device_resource: as a resource that is passed, and as the
// device's. Preloaded. Prints a line for each expectation that does not hold, and how many
// there were.
#define CUSTASH_PRELOADED
#include "interpose/api/custash_resource.hpp"
#include "tests/process/expect.hpp"

#include <cstdio>
#include <vector>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/per_device_resource.hpp>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Without a call of RMM's own library, which has NVIDIA's runtime inside and so needs a GPU.
void referred() {
  const std::size_t before = allocated();
  custash::device_resource memory;
  rmm::device_async_resource_ref reference{memory};
  cudaStream_t made = nullptr;
  EXPECT(cudaStreamCreate(&made) == cudaSuccess);
  const cuda::stream_ref stream{made};
  void* const block = reference.allocate(stream, 3 * kMiB, 256);
  EXPECT(block != nullptr && allocated() == before + 3 * kMiB);
  reference.deallocate(stream, block, 3 * kMiB, 256);
  void* const plain = reference.allocate_sync(kMiB, 256);
  EXPECT(plain != nullptr && allocated() == before + kMiB);
  reference.deallocate_sync(plain, kMiB, 256);
  EXPECT(allocated() == before);
  cuda::mr::any_resource<cuda::mr::device_accessible> owned{
      memory};  // as a device's resource is kept
  void* const third = owned.allocate(stream, 512, 256);
  EXPECT(allocated() == before + 512);
  owned.deallocate(stream, third, 512, 256);
  EXPECT(allocated() == before);
  EXPECT(cudaStreamDestroy(made) == cudaSuccess);
}

void passed() {
  custash::device_resource memory;
  rmm::cuda_stream stream;
  const std::size_t before = allocated();
  {
    rmm::device_buffer buffer(3 * kMiB, stream, memory);
    EXPECT(buffer.data() != nullptr && buffer.size() == 3 * kMiB);
    EXPECT(allocated() == before + 3 * kMiB);
    buffer.resize(5 * kMiB, stream);  // takes new memory, copies, gives back the old
    EXPECT(allocated() == before + 5 * kMiB);
    const rmm::device_buffer copy(buffer, stream, memory);
    EXPECT(allocated() == before + 10 * kMiB);
  }
  EXPECT(allocated() == before);
}

void current() {
  const std::size_t before = allocated();
  rmm::mr::set_current_device_resource(custash::device_resource{});
  {
    rmm::cuda_stream stream;
    rmm::device_uvector<int> numbers(kMiB, stream);
    EXPECT(allocated() == before + 4 * kMiB);
    numbers.set_element(7, 42, stream);
    EXPECT(numbers.element(7, stream) == 42);
    std::vector<rmm::device_buffer> many;
    for (int i = 0; i < 100; ++i)
      many.emplace_back(1000 + i, stream);
    EXPECT(allocated() > before + 4 * kMiB + 100'000);
    bool full = false;
    try {
      rmm::device_buffer too_large(std::size_t{1} << 45, stream);
    } catch (const std::bad_alloc&) {
      full = true;
    }
    EXPECT(full);
  }
  EXPECT(allocated() == before);
}

}  // namespace

int main(int argc, char**) {
  referred();
  if (argc > 1) {
    passed();
    current();
  }
  std::printf("%d wrong\n", failures);
  return 0;
}
