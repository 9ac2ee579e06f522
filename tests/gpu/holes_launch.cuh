// SPDX-License-Identifier: MIT
// Programmatic dependent launches: what puts a launch behind the kernel before it, and whether
// the next owner of a block is put there. Needs compute capability 9.0.
#pragma once

#include "holes_bed.cuh"

namespace gpu {

// Lets its dependents begin, then spins and writes.
static __global__ void trigger_and_fill(Word* p,
                                        std::size_t words,
                                        Word pattern,
                                        unsigned long long ns) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  spin_for(ns);
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x)
    p[i] = pattern;
}

static __global__ void fill_early(Word* p, std::size_t words, Word pattern) {
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x)
    p[i] = pattern;
}

inline void launch_early(cudaStream_t stream, void* p, std::size_t words, bool early) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = early ? 1 : 0;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 128;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUDA_OK(cudaLaunchKernelEx(&config, fill_early, static_cast<Word*>(p), words, kNext));
}

// How often the second kernel's words were overwritten by the first, which ends later if
// `between` and the attribute do not hold the second one back. One block, never freed.
template <typename Between>
inline void measure_order(HolesBed& bed,
                          const char* name,
                          bool early,
                          Between between,
                          cudaStream_t second = nullptr) {
  constexpr std::size_t kWords = 1024;
  void* p = device_memory(kWords * sizeof(Word));
  int overtaken = 0;
  constexpr int kRounds = 10;
  for (int i = 0; i < kRounds; ++i) {
    trigger_and_fill<<<1, 128, 0, bed.s>>>(static_cast<Word*>(p), kWords, kLate, 2'000'000);
    between();
    launch_early(second == nullptr ? bed.s : second, p, kWords, early);
    overtaken += bed.wrong.in(p, kWords * sizeof(Word), kNext) != 0 ? 1 : 0;
  }
  std::printf("info early_launch_%s rounds=%d overtaken=%d\n", name, kRounds, overtaken);
  CUDA_OK(cudaFree(p));
}

inline void early_launches(HolesBed& bed, Report& report, int rounds) {
  int major = 0;
  CUDA_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major < 9) {
    std::printf("skip: programmatic launches need compute capability 9.0\n");
    return;
  }
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUcontext context = nullptr;
  (void)driver("cuCtxGetCurrent", &context);
  measure_order(bed, "nothing_between", true, [] {});
  measure_order(bed, "without_the_attribute", false, [] {});
  measure_order(bed, "wait_for_an_event_of_the_stream", true, [&] {
    CUDA_OK(cudaEventRecord(event, bed.s));
    CUDA_OK(cudaStreamWaitEvent(bed.s, event, 0));
  });
  measure_order(bed, "wait_for_an_event_of_the_context", true, [&] {
    (void)driver("cuCtxRecordEvent", context, static_cast<CUevent>(event));
    CUDA_OK(cudaStreamWaitEvent(bed.s, event, 0));
  });
  void* ordered = nullptr;
  CUDA_OK(cudaMallocAsync(&ordered, kBlock, bed.s));
  measure_order(bed, "free_and_allocation_of_the_stream", true, [&] {
    CUDA_OK(cudaFreeAsync(ordered, bed.s));
    CUDA_OK(cudaMallocAsync(&ordered, kBlock, bed.s));
  });
  cudaStream_t other = new_stream();
  const auto other_waits = [&] {
    CUDA_OK(cudaEventRecord(event, bed.s));
    CUDA_OK(cudaStreamWaitEvent(other, event, 0));
  };
  measure_order(bed, "other_stream_waits", true, other_waits, other);
  measure_order(
      bed,
      "other_stream_waits_behind_work",
      true,
      [&] {
        fill_early<<<1, 128, 0, other>>>(static_cast<Word*>(ordered), 128, kNext);
        other_waits();
      },
      other);
  CUDA_OK(cudaFreeAsync(ordered, bed.s));
  for (const std::size_t bytes : {std::size_t{512}, kBlock}) {
    unsigned long long wrong = 0;
    int same = 0;
    for (int i = 0; i < rounds; ++i) {
      const std::size_t words = 128;
      void* p = device_memory(bytes);
      trigger_and_fill<<<1, 128, 0, bed.s>>>(static_cast<Word*>(p), words, kLate, 500'000);
      CUDA_OK(cudaFree(p));
      void* q = take_at(p, bytes, &bed.between);
      same += p == q ? 1 : 0;
      launch_early(bed.s, q, words, true);
      wrong += bed.wrong.in(q, words * sizeof(Word), kNext);
      bed.settle(q);
    }
    report.check(wrong == 0,
                 bytes == 512 ? "early_launch_small" : "early_launch_large",
                 "rounds=%d same=%d wrong=%llu",
                 rounds,
                 same,
                 wrong);
  }
  CUDA_OK(cudaEventDestroy(event));
}

}  // namespace gpu
