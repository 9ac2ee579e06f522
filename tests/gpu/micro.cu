// SPDX-License-Identifier: MIT
// What one cached pair costs: malloc and free alone, around a kernel launch, and
// stream-ordered; for sizes from 512 B to 64 MiB, on 1 and on 16 threads. Nanoseconds a pair,
// the median of the batches (of all threads). A measurement: it fails only on a CUDA error.
//
//   micro [--quick] [--threads N]
#include "kernels.cuh"

#include <atomic>
#include <mutex>
#include <thread>

namespace gpu {

constexpr std::size_t kSizes[] = {512, 4 * kKiB, 64 * kKiB, kMiB, 8 * kMiB, 64 * kMiB};
constexpr double kBatchUs = 1000;
constexpr int kMostPairs = 20'000;

static __global__ void touch(Word* p) {
  *p = 1;
}

enum class Kind { Plain, Launch, Async };

static const char* name_of(Kind kind) {
  return kind == Kind::Plain    ? "malloc_free"
         : kind == Kind::Launch ? "malloc_launch_free"
                                : "malloc_async_free_async";
}

static void one_pair(Kind kind, std::size_t bytes, cudaStream_t stream) {
  void* p = nullptr;
  switch (kind) {
    case Kind::Plain:
      CUDA_OK(cudaMalloc(&p, bytes));
      CUDA_OK(cudaFree(p));
      break;
    case Kind::Launch:
      CUDA_OK(cudaMalloc(&p, bytes));
      touch<<<1, 1, 0, stream>>>(static_cast<Word*>(p));
      CUDA_OK(cudaFree(p));
      break;
    case Kind::Async:
      CUDA_OK(cudaMallocAsync(&p, bytes, stream));
      CUDA_OK(cudaFreeAsync(p, stream));
      break;
  }
}

// Nanoseconds a pair, over `pairs` of them; what was submitted is waited for afterwards.
static double batch(Kind kind, std::size_t bytes, cudaStream_t stream, int pairs) {
  const double start = now_us();
  for (int i = 0; i < pairs; ++i)
    one_pair(kind, bytes, stream);
  const double spent = now_us() - start;
  CUDA_OK(cudaStreamSynchronize(stream));
  return spent * 1000 / pairs;
}

// All threads start each measurement together.
class Gate {
 public:
  explicit Gate(int threads) : threads_(threads) {}

  void pass() {
    const int turn = arrived_.fetch_add(1) / threads_;
    while (arrived_.load() < (turn + 1) * threads_)
      std::this_thread::yield();
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
};

static std::vector<double> measure(Kind kind,
                                   std::size_t bytes,
                                   int thread_count,
                                   int batches) {
  std::vector<double> all;
  std::mutex mutex;
  Gate gate(thread_count);
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      CUDA_OK(cudaSetDevice(0));
      cudaStream_t stream = new_stream();
      batch(kind, bytes, stream, 3);
      gate.pass();
      // So many that a batch takes about a millisecond.
      const double guess_ns = batch(kind, bytes, stream, 10);
      const int pairs = std::clamp(
          static_cast<int>(kBatchUs * 1000 / std::max(1.0, guess_ns)), 5, kMostPairs);
      gate.pass();
      std::vector<double> mine;
      for (int i = 0; i < batches; ++i)
        mine.push_back(batch(kind, bytes, stream, pairs));
      gate.pass();
      CUDA_OK(cudaStreamDestroy(stream));
      const std::lock_guard<std::mutex> lock(mutex);
      all.insert(all.end(), mine.begin(), mine.end());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return all;
}

static void keep_pool_memory() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t all = UINT64_MAX;
  CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

static int run(int argc, char** argv) {
  need_devices(1);
  const bool quick = has_flag(argc, argv, "--quick");
  const int many = static_cast<int>(number_after(argc, argv, "--threads", 16));
  int pools = 0;
  CUDA_OK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0));
  if (pools != 0) keep_pool_memory();
  touch<<<1, 1>>>(static_cast<Word*>(device_memory(512)));
  CUDA_OK(cudaDeviceSynchronize());

  Report report;
  for (const Kind kind : {Kind::Plain, Kind::Launch, Kind::Async}) {
    if (kind == Kind::Async && pools == 0) continue;
    for (const std::size_t bytes : kSizes) {
      for (const int threads : {1, many}) {
        const std::vector<double> ns = measure(kind, bytes, threads, quick ? 5 : 21);
        report.check(true,
                     name_of(kind),
                     "bytes=%zu threads=%d pair_ns=%.1f worst_ns=%.1f",
                     bytes,
                     threads,
                     median(ns),
                     worst(ns));
      }
    }
  }
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
