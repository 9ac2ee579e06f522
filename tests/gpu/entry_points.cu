// SPDX-License-Identifier: MIT
// custash_resource.hpp and custash_thrust.hpp in a program like any other: sorts and sums on
// two streams at once, from threads, with memory of custash alone. Only preloaded: bare there
// is nothing to ask.
//
//   entry_points [--quick]
#define CUSTASH_PRELOADED
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include "custash_resource.hpp"
#include "custash_thrust.hpp"
#include "scatter.cuh"

#include <thread>

#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

namespace gpu {

static_assert(
    cuda::mr::async_resource_with<custash::device_resource, cuda::mr::device_accessible>);

using Vector = thrust::device_vector<int, custash::device_allocator<int>>;

static std::size_t allocated() {
  custash_counter_t bytes{};
  auto* const ask = reinterpret_cast<decltype(&custash_allocated_bytes)>(
      dlsym(RTLD_DEFAULT, "custash_allocated_bytes"));
  ask(CUSTASH_CURRENT_DEVICE, &bytes);
  return static_cast<std::size_t>(bytes.current);
}

// Sorts and checks on a stream of its own; how many elements were wrong.
static unsigned sort_on_a_stream(int rounds, unsigned seed) {
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  custash::temporary_allocator memory(stream);
  const custash::device_resource resource;
  unsigned wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    auto* const misplaced =
        static_cast<unsigned*>(resource.allocate_async(sizeof(unsigned), 256, stream));
    CUDA_OK(cudaMemsetAsync(misplaced, 0, sizeof(unsigned), stream));
    Vector values(kInts);  // its fill runs on the default stream, and is over when it returns
    const auto policy = thrust::cuda::par_nosync(memory).on(stream);
    thrust::sequence(policy, values.begin(), values.end());
    thrust::transform(policy,
                      values.begin(),
                      values.end(),
                      values.begin(),
                      Scatter{seed + static_cast<unsigned>(i) * 977U});
    thrust::sort(policy, values.begin(), values.end());
    count_misplaced<<<kInts / 256, 256, 0, stream>>>(thrust::raw_pointer_cast(values.data()),
                                                     misplaced);
    unsigned found = 0;
    CUDA_OK(cudaMemcpyAsync(&found, misplaced, sizeof found, cudaMemcpyDeviceToHost, stream));
    resource.deallocate_async(misplaced, sizeof(unsigned), 256, stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    wrong += found;
  }
  CUDA_OK(cudaStreamDestroy(stream));
  return wrong;
}

// CUB with scratch memory of the resource.
static long long sum_with_cub(
    cuda::mr::async_resource_ref<cuda::mr::device_accessible> memory) {
  const cuda::stream_ref stream{cudaStream_t{}};
  Vector values(kInts);
  thrust::sequence(values.begin(), values.end());
  auto* const out = static_cast<long long*>(memory.allocate_async(sizeof(long long), stream));
  std::size_t bytes = 0;
  const int* const in = thrust::raw_pointer_cast(values.data());
  CUDA_OK(cub::DeviceReduce::Reduce(nullptr, bytes, in, out, kInts, cuda::std::plus<>{}, 0LL));
  void* const scratch = memory.allocate_async(bytes, stream);
  CUDA_OK(cub::DeviceReduce::Reduce(scratch, bytes, in, out, kInts, cuda::std::plus<>{}, 0LL));
  long long sum = 0;
  CUDA_OK(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
  memory.deallocate_async(scratch, bytes, stream);
  memory.deallocate_async(out, sizeof(long long), stream);
  return sum;
}

static void say(bool ok, const char* name) {
  std::printf("%s %s\n", ok ? "ok" : "FAIL", name);
}

static int run(int argc, char** argv) {
  need_devices(1);
  if (dlsym(RTLD_DEFAULT, "custash_malloc_async") == nullptr) {
    std::printf("skip: custash is not preloaded\n");
    return kSkip;
  }
  const int rounds = has_flag(argc, argv, "--quick") ? 30 : 300;
  CUDA_OK(cudaFree(nullptr));
  unsigned wrong[4] = {};
  std::thread threads[4];
  for (unsigned i = 0; i < 4; ++i)
    threads[i] = std::thread([&wrong, rounds, i] { wrong[i] = sort_on_a_stream(rounds, i); });
  for (std::thread& each : threads)
    each.join();
  const bool sorted = wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0;
  say(sorted, "thrust_sorts_on_four_streams");
  custash::device_resource memory;
  constexpr long long kExpected = static_cast<long long>(kInts) * (kInts - 1) / 2;
  const bool summed = sum_with_cub(memory) == kExpected;
  say(summed, "cub_through_cuda_mr");
  bool refused = false;
  try {
    Vector too_large(std::size_t{1} << 45U);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  say(refused, "bad_alloc");
  const bool empty = allocated() == 0;
  say(empty, "nothing_left");
  return sorted && summed && refused && empty ? 0 : 1;
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
