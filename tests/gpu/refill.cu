// SPDX-License-Identifier: MIT
// A pinned buffer that is written again after nothing but a cudaFree, while its copy to the
// device is queued behind a kernel: a known difference (docs/semantics.md). And how long a free
// takes in a loop that prefetches by such copies. Lines "info" measure and are never wrong.
#include "kernels.cuh"

namespace gpu {

constexpr std::size_t kBuffer = kMiB;
constexpr unsigned long long kBusyNs = 20'000'000;

struct Bed {
  Bed() {
    warm_up(stream, wrong);
    for (Word*& each : host)
      CUDA_OK(cudaHostAlloc(reinterpret_cast<void**>(&each), kBuffer, cudaHostAllocDefault));
    for (cudaEvent_t& each : copied)
      CUDA_OK(cudaEventCreateWithFlags(&each, cudaEventDisableTiming));
  }

  void copy(int which) {
    CUDA_OK(
        cudaMemcpyAsync(device[which], host[which], kBuffer, cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaEventRecord(copied[which], stream));
  }

  WrongWords wrong;
  cudaStream_t stream = new_stream();
  cudaEvent_t copied[2];
  Word* host[2];
  void* device[2] = {device_memory(kBuffer), device_memory(kBuffer)};
};

static void refill(Bed& bed) {
  int lost = 0;
  constexpr int kRounds = 10;
  for (Word round = 0; round < kRounds; ++round) {
    void* p = device_memory(kBuffer);
    std::fill_n(bed.host[0], kBuffer / sizeof(Word), round);
    spin(bed.stream, kBusyNs);
    bed.copy(0);
    CUDA_OK(cudaFree(p));
    std::fill_n(bed.host[0], kBuffer / sizeof(Word), round + kRounds);
    lost += bed.wrong.in(bed.device[0], kBuffer, round) != 0 ? 1 : 0;
  }
  std::printf("info refill_after_free rounds=%d lost=%d\n", kRounds, lost);
}

// The program waits for each buffer's own copy, two rounds later.
static void prefetch(Bed& bed) {
  std::vector<double> free_us;
  const double start = now_us();
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    const int which = round % 2;
    CUDA_OK(cudaEventSynchronize(bed.copied[which]));
    bed.host[which][0] = static_cast<Word>(round);
    spin(bed.stream, kBusyNs);
    bed.copy(which);
    void* p = device_memory(4 * kMiB);
    fill(bed.stream, p, 4 * kMiB, 1);
    const double before = now_us();
    CUDA_OK(cudaFree(p));
    free_us.push_back(now_us() - before);
  }
  CUDA_OK(cudaDeviceSynchronize());
  std::printf("info prefetch rounds=%d ms_each=%.2f free_median_us=%.1f free_worst_us=%.1f\n",
              kRounds,
              (now_us() - start) / 1000 / kRounds,
              median(free_us),
              worst(free_us));
}

static int run() {
  need_devices(1);
  Report report;
  Bed bed;
  refill(bed);
  prefetch(bed);
  report.check(true, "refill");
  return report.finish();
}

}  // namespace gpu

int main() {
  return gpu::run();
}
