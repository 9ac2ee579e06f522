// SPDX-License-Identifier: MIT
// Two GPUs: memory of one read and written by the other, allocated before and after peer access
// was enabled; copies between them, with and without; frees on one while the other is busy; and
// blocks whose two owners are on different devices. Skips with fewer than two GPUs.
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

static std::vector<void*> blocks_on(int device) {
  use(device);
  std::vector<void*> blocks;
  for (const std::size_t bytes : kSizes)
    blocks.push_back(device_memory(bytes));
  return blocks;
}

static void free_all(const std::vector<void*>& blocks) {
  for (void* p : blocks)
    CUDA_OK(cudaFree(p));
}

static void copies(Bed& bed, const char* name) {
  unsigned long long wrong = 0;
  const std::vector<void*> at_zero = blocks_on(0);
  const std::vector<void*> at_one = blocks_on(1);
  for (std::size_t i = 0; i < at_zero.size(); ++i) {
    const std::size_t bytes = kSizes[i];
    use(0);
    fill(bed.zero.s1, at_zero[i], bytes, kNextWords + 1);
    CUDA_OK(cudaMemcpyPeerAsync(at_one[i], 1, at_zero[i], 0, bytes, bed.zero.s1));
    CUDA_OK(cudaStreamSynchronize(bed.zero.s1));
    wrong += bed.one.count(at_one[i], bytes, kNextWords + 1);
    use(1);
    fill(bed.one.s1, at_one[i], bytes, kNextWords + 2);
    CUDA_OK(cudaStreamSynchronize(bed.one.s1));
    CUDA_OK(cudaMemcpyPeer(at_zero[i], 0, at_one[i], 1, bytes));
    bed.idle();
    wrong += bed.zero.count(at_zero[i], bytes, kNextWords + 2);
    use(0);
    fill(bed.zero.s1, at_zero[i], bytes, kNextWords + 3);
    CUDA_OK(cudaStreamSynchronize(bed.zero.s1));
    CUDA_OK(cudaMemcpy(at_one[i], at_zero[i], bytes, cudaMemcpyDefault));
    bed.idle();  // device to device: the host is not held up
    wrong += bed.one.count(at_one[i], bytes, kNextWords + 3);
  }
  free_all(at_zero);
  free_all(at_one);
  bed.report.check(wrong == 0, name, "wrong=%llu", wrong);
}

// Kernels of `by` read and write blocks of `of`.
static unsigned long long reach(Side& by, Side& of, const std::vector<void*>& blocks) {
  unsigned long long wrong = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    use(of.device);
    fill(of.s1, blocks[i], kSizes[i], kLateWords);
    CUDA_OK(cudaStreamSynchronize(of.s1));
    use(by.device);
    verify(by.s1, blocks[i], kSizes[i], kLateWords, by.wrong.device());
    fill(by.s1, blocks[i], kSizes[i], kNextWords);
    wrong += by.wrong.take();
    wrong += of.count(blocks[i], kSizes[i], kNextWords);
  }
  return wrong;
}

static void enable_both() {
  use(0);
  CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  use(1);
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
}

static void disable_both() {
  use(0);
  CUDA_OK(cudaDeviceDisablePeerAccess(1));
  use(1);
  CUDA_OK(cudaDeviceDisablePeerAccess(0));
}

// Blocks from before and from after peer access was enabled, and once more after it was off.
static void access(Bed& bed) {
  const std::vector<void*> zero_before = blocks_on(0);
  const std::vector<void*> one_before = blocks_on(1);
  for (const char* when : {"first", "again"}) {
    enable_both();
    unsigned long long wrong = reach(bed.one, bed.zero, zero_before);
    wrong += reach(bed.zero, bed.one, one_before);
    bed.report.check(
        wrong == 0, std::string("peer_access_to_old_blocks_") + when, "wrong=%llu", wrong);
    const std::vector<void*> zero_after = blocks_on(0);
    const std::vector<void*> one_after = blocks_on(1);
    wrong = reach(bed.one, bed.zero, zero_after);
    wrong += reach(bed.zero, bed.one, one_after);
    bed.report.check(
        wrong == 0, std::string("peer_access_to_new_blocks_") + when, "wrong=%llu", wrong);
    bed.idle();
    free_all(zero_after);
    free_all(one_after);
    disable_both();
  }
  free_all(zero_before);
  free_all(one_before);
  enable_both();  // for the checks that follow
}

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
  copies(bed, "peer_copies_without_access");
  int zero_to_one = 0;
  int one_to_zero = 0;
  CUDA_OK(cudaDeviceCanAccessPeer(&zero_to_one, 0, 1));
  CUDA_OK(cudaDeviceCanAccessPeer(&one_to_zero, 1, 0));
  free_times(bed, rounds);
  if (zero_to_one == 0 || one_to_zero == 0) {
    std::printf("skip: the devices cannot reach each other's memory\n");
    return bed.report.finish();
  }
  access(bed);
  copies(bed, "peer_copies_with_access");
  free_times(bed, rounds);
  reuses(bed, rounds);
  return bed.report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
