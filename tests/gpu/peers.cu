// SPDX-License-Identifier: MIT
// Two GPUs: frees on one while the other is busy, and blocks whose two owners are on different
// devices. Skips with fewer than two GPUs.
//
//   peers [--quick]
#include "kernels.cuh"

namespace gpu {

constexpr unsigned long long kBusyNs = 20'000'000;
constexpr std::size_t kSizes[] = {512, kMiB, 64 * kMiB};
constexpr Word kLateWords = 0xA5A5A5A5;
constexpr Word kNextWords = 0x5B5B5B5B;

static void use(int device) {
  CUDA_OK(cudaSetDevice(device));
}

// A device's streams and counter, made while it is current.
struct Side {
  explicit Side(int number) : device((use(number), number)) {
    for (cudaStream_t stream : {s1, s2})
      warm_up(stream, wrong);
  }

  unsigned long long count(const void* p, std::size_t bytes, Word pattern) {
    use(device);
    return wrong.in(p, bytes, pattern);
  }

  int device;
  WrongWords wrong;
  cudaStream_t s1 = new_stream();
  cudaStream_t s2 = new_stream();
};

struct Bed {
  Bed() : zero(0), one(1) {}

  void idle() {
    use(1);
    CUDA_OK(cudaDeviceSynchronize());
    use(0);
    CUDA_OK(cudaDeviceSynchronize());
  }

  Report report;
  Side zero;
  Side one;
};

// Time of cudaFree of a block of `of`, with `current` current and `busy` busy.
static void free_time(Bed& bed,
                      const char* name,
                      int current,
                      Side& of,
                      Side& busy,
                      int rounds,
                      double limit_us) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    use(of.device);
    void* p = device_memory(kMiB);
    use(busy.device);
    spin(busy.s1, kBusyNs);
    use(current);
    const double start = now_us();
    CUDA_OK(cudaFree(p));
    took.push_back(now_us() - start);
    bed.idle();
  }
  bed.report.check(median(took) < limit_us,
                   name,
                   "free_us=%.2f free_worst_us=%.2f",
                   median(took),
                   worst(took));
}

static void free_times(Bed& bed, int rounds) {
  free_time(bed, "peer_free_other_device_busy", 1, bed.one, bed.zero, rounds, 10'000);
  // The driver waits for the block's own device, whichever is current: no limit.
  free_time(bed, "peer_free_own_device_busy", 0, bed.one, bed.one, rounds, 1e12);
}

// Late work of a block's own device, freed, taken again, and written next by `write`.
template <typename Write>
static void reuse(Bed& bed, const char* name, int rounds, int current_at_free, Write write) {
  unsigned long long wrong = 0;
  int same = 0;
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const std::size_t bytes = kSizes[1 + i % 2];
    use(0);
    void* p = device_memory(bytes);
    fill(bed.zero.s1, p, bytes, kLateWords, kBusyNs / 4);
    use(current_at_free);
    const double start = now_us();
    CUDA_OK(cudaFree(p));
    took.push_back(now_us() - start);
    use(0);
    void* q = device_memory(bytes);
    same += p == q ? 1 : 0;
    write(q, bytes);
    bed.idle();
    wrong += bed.zero.count(q, bytes, kNextWords);
    CUDA_OK(cudaFree(q));
  }
  bed.report.check(wrong == 0,
                   name,
                   "rounds=%d same=%d wrong=%llu free_us=%.2f",
                   rounds,
                   same,
                   wrong,
                   median(took));
}

static void reuses(Bed& bed, int rounds) {
  const auto own = [&bed](void* q, std::size_t bytes) {
    use(0);
    fill(bed.zero.s2, q, bytes, kNextWords);
  };
  reuse(bed, "peer_reuse_freed_with_other_device_current", rounds, 1, own);
  reuse(bed,
        "peer_reuse_by_kernel_of_other_device",
        rounds,
        0,
        [&bed](void* q, std::size_t bytes) {
          use(1);
          fill(bed.one.s1, q, bytes, kNextWords);
        });
  use(1);
  void* source = device_memory(kSizes[2]);
  fill(bed.one.s1, source, kSizes[2], kNextWords);
  bed.idle();
  reuse(bed,
        "peer_reuse_by_copy_of_other_device",
        rounds,
        0,
        [&bed, source](void* q, std::size_t bytes) {
          use(1);
          CUDA_OK(cudaMemcpyPeerAsync(q, 0, source, 1, bytes, bed.one.s1));
        });
  use(1);
  CUDA_OK(cudaFree(source));
}

static int run(int argc, char** argv) {
  need_devices(2);
  const int rounds = has_flag(argc, argv, "--quick") ? 4 : 12;
  Bed bed;
  int zero_to_one = 0;
  int one_to_zero = 0;
  CUDA_OK(cudaDeviceCanAccessPeer(&zero_to_one, 0, 1));
  CUDA_OK(cudaDeviceCanAccessPeer(&one_to_zero, 1, 0));
  free_times(bed, rounds);
  if (zero_to_one == 0 || one_to_zero == 0) {
    std::printf("skip: the devices cannot reach each other's memory\n");
    return bed.report.finish();
  }
  use(0);
  CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  use(1);
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
  free_times(bed, rounds);
  reuses(bed, rounds);
  return bed.report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
