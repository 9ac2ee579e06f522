// SPDX-License-Identifier: MIT
// How long does cudaFree take while a 60 ms kernel runs on a non-blocking stream, and is the
// memory safe with its next owner? For each size: the block (its size used and freed before, so
// that a cache is warm) is written by the kernel at its very end, freed at once, asked for
// again and written by another stream; those words must be there when all has ended. Prints
// `free_us SIZE T` (medians), and whether the kernel still ran when cudaFree returned.
//
//   free_latency [--quick] [--limit-us T]     T: the median that is still right; default none
#include "kernels.cuh"

namespace gpu {

constexpr unsigned long long kKernelNs = 60'000'000;
constexpr std::size_t kSizes[] = {512, kMiB, 64 * kMiB};
constexpr Word kLateWords = 0xA5A5A5A5;
constexpr Word kNextWords = 0x5B5B5B5B;

struct Result {
  std::vector<double> free_us;
  std::vector<double> malloc_us;
  int rounds = 0;
  int still_running = 0;
  int same = 0;
  unsigned long long wrong = 0;
};

static void round(Result& result,
                  std::size_t bytes,
                  cudaStream_t busy,
                  cudaStream_t other,
                  cudaEvent_t ended,
                  WrongWords& wrong) {
  void* p = device_memory(bytes);
  fill(busy, p, bytes, kLateWords, kKernelNs);
  CUDA_OK(cudaEventRecord(ended, busy));

  const double start = now_us();
  CUDA_OK(cudaFree(p));
  const double freed = now_us();
  const cudaError_t state = cudaEventQuery(ended);
  if (state != cudaErrorNotReady) CUDA_OK(state);
  const double before_malloc = now_us();
  void* q = device_memory(bytes);
  const double taken = now_us();
  fill(other, q, bytes, kNextWords);

  ++result.rounds;
  result.free_us.push_back(freed - start);
  result.malloc_us.push_back(taken - before_malloc);
  result.still_running += state == cudaErrorNotReady ? 1 : 0;
  result.same += p == q ? 1 : 0;
  result.wrong += wrong.in(q, bytes, kNextWords);
  CUDA_OK(cudaFree(q));
}

static int run(int argc, char** argv) {
  need_devices(1);
  const int rounds = has_flag(argc, argv, "--quick") ? 3 : 11;
  const double limit_us = number_after(argc, argv, "--limit-us", 1e12);
  WrongWords wrong;
  cudaStream_t busy = new_stream();
  cudaStream_t other = new_stream();
  cudaEvent_t ended = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
  warm_up(busy, wrong);
  warm_up(other, wrong);
  CUDA_OK(cudaEventRecord(ended, busy));
  CUDA_OK(cudaDeviceSynchronize());

  Report report;
  for (const std::size_t bytes : kSizes) {
    for (int i = 0; i < 3; ++i)
      CUDA_OK(cudaFree(device_memory(bytes)));
    Result result;
    for (int i = 0; i < rounds; ++i)
      round(result, bytes, busy, other, ended, wrong);
    const double free_us = median(result.free_us);
    std::printf("free_us %zu %.2f\n", bytes, free_us);
    report.check(result.wrong == 0 && free_us <= limit_us,
                 "free_latency_" + std::to_string(bytes),
                 "rounds=%d free_us=%.2f free_worst_us=%.2f malloc_us=%.2f still_running=%d "
                 "same=%d wrong=%llu",
                 result.rounds,
                 free_us,
                 worst(result.free_us),
                 median(result.malloc_us),
                 result.still_running,
                 result.same,
                 result.wrong);
  }
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
