// SPDX-License-Identifier: MIT
// What a pair of allocation and free takes by each way to get device memory, on each of some
// threads: nanoseconds, the median of batches. Bare, or with custash preloaded.
//
//   pairs [THREADS] [BATCHES]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

namespace {

constexpr int kPairs = 200;  // of a batch

struct Way {
  const char* name;
  cudaError_t (*pair)(cudaStream_t stream);
};

cudaMemPool_t own_pool = nullptr;

cudaError_t plain(cudaStream_t) {
  void* p = nullptr;
  const cudaError_t result = cudaMalloc(&p, 1 << 20);
  return result != cudaSuccess ? result : cudaFree(p);
}

cudaError_t pitched(cudaStream_t) {
  void* p = nullptr;
  std::size_t pitch = 0;
  const cudaError_t result = cudaMallocPitch(&p, &pitch, 2000, 512);
  return result != cudaSuccess ? result : cudaFree(p);
}

cudaError_t ordered(cudaStream_t stream) {
  void* p = nullptr;
  const cudaError_t result = cudaMallocAsync(&p, 1 << 20, stream);
  return result != cudaSuccess ? result : cudaFreeAsync(p, stream);
}

cudaError_t from_pool(cudaStream_t stream) {
  void* p = nullptr;
  const cudaError_t result = cudaMallocFromPoolAsync(&p, 1 << 20, own_pool, stream);
  return result != cudaSuccess ? result : cudaFreeAsync(p, stream);
}

constexpr Way kWays[] = {
    {"cudaMalloc", plain},
    {"cudaMallocPitch", pitched},
    {"cudaMallocAsync", ordered},
    {"cudaMallocFromPoolAsync", from_pool},
};

// Of one thread; -1 where a call fails.
double median(const Way& way, int batches, const std::atomic<bool>& go) {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return -1;
  std::vector<double> all;
  while (!go.load())
    std::this_thread::yield();
  for (int batch = 0; batch < batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kPairs; ++i)
      if (way.pair(stream) != cudaSuccess) return -1;
    const std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - begin;
    all.push_back(took.count() / kPairs);
  }
  cudaStreamDestroy(stream);
  std::nth_element(all.begin(), all.begin() + batches / 2, all.end());
  return all[static_cast<std::size_t>(batches / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int batches = argc > 2 ? std::atoi(argv[2]) : 500;
  if (threads < 1 || batches < 1) return 2;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
  cudaMemPoolProps props;
  std::memset(&props, 0, sizeof props);
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  unsigned long long all = ~0ULL;
  if (cudaFree(nullptr) != cudaSuccess || cudaMemPoolCreate(&own_pool, &props) != cudaSuccess ||
      cudaMemPoolSetAttribute(own_pool, cudaMemPoolAttrReleaseThreshold, &all) != cudaSuccess)
    return 1;
  for (const Way& way : kWays) {
    std::vector<double> took(static_cast<std::size_t>(threads));
    std::vector<std::thread> running;
    std::atomic<bool> go{false};
    for (double& each : took)
      running.emplace_back([&] { each = median(way, batches, go); });
    go.store(true);
    for (std::thread& each : running)
      each.join();
    std::sort(took.begin(), took.end());
    std::printf("%s threads=%d pair_ns=%.0f worst_thread_ns=%.0f\n",
                way.name,
                threads,
                took[took.size() / 2],
                took.back());
    if (took.front() < 0) return 1;
  }
  return 0;
}
