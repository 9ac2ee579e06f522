// SPDX-License-Identifier: MIT
// How much overlap is left between streams that allocate and free plainly around each kernel.
// One host thread goes round the streams: cudaMalloc, a kernel of known length, cudaFree, while
// 1 GiB stays allocated. `even`: all kernels are equally long; `uneven`: those of the first
// stream are four times as long, as many fewer. Prints a line for each kernel, in microseconds
// since the first began, and
//
//   ok overlap_KIND streams=N overlap=X held_mib=M ...
//
// overlap is the kernels' time over the time all took: 1 when none ran beside another, N at
// best. held is the most memory that was taken from the device.
//
//   overlap [--streams N] [--rounds N] [--length-us T] [--uneven] [--quick]
#include "../../interpose/api/custash.h"
#include "kernels.cuh"

#include <dlfcn.h>

// Named so that the simulator finds what it does (overlap_kernels.cpp).
extern "C" __global__ void overlap_kernel(gpu::Word* p, unsigned long long ns) {
  gpu::spin_for(ns);
  *p = 1;
}

namespace gpu {

constexpr std::size_t kStays = kGiB;
constexpr std::size_t kBlock = 32 * kMiB;

struct Run {
  int stream;
  double length_us;
  cudaEvent_t ended;
};

struct Pattern {
  int streams;
  int rounds;
  double length_us;
  bool uneven;

  // Of the kernel that a stream gets in this round; 0: none.
  double length(int round, int stream) const {
    if (!uneven || stream != 0) return length_us;
    return round % 4 == 0 ? 4 * length_us : 0;
  }
};

// Held by custash now; negative without it.
static long long reserved() {
  using Ask = int (*)(int, custash_counter_t*);
  static const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "custash_reserved_bytes"));
  custash_counter_t bytes{};
  return ask != nullptr && ask(0, &bytes) == 0 ? bytes.current : -1;
}

static std::vector<Run> submit(const Pattern& pattern,
                               const std::vector<cudaStream_t>& streams,
                               std::vector<cudaEvent_t> events,
                               long long* held) {
  std::vector<Run> runs;
  const bool served = reserved() >= 0;
  for (int round = 0; round < pattern.rounds; ++round) {
    for (int s = 0; s < pattern.streams; ++s) {
      const double us = pattern.length(round, s);
      if (us == 0) continue;
      void* p = device_memory(kBlock);
      *held = std::max<long long>(*held, served ? reserved() : kStays + kBlock);
      overlap_kernel<<<1, 1, 0, streams[s]>>>(static_cast<Word*>(p),
                                              static_cast<unsigned long long>(us * 1000));
      CUDA_OK(cudaGetLastError());
      CUDA_OK(cudaEventRecord(events.back(), streams[s]));
      runs.push_back({s, us, events.back()});
      events.pop_back();
      CUDA_OK(cudaFree(p));
    }
  }
  return runs;
}

static int run(int argc, char** argv) {
  need_devices(1);
  const bool quick = has_flag(argc, argv, "--quick");
  const Pattern pattern{static_cast<int>(number_after(argc, argv, "--streams", 4)),
                        static_cast<int>(number_after(argc, argv, "--rounds", quick ? 4 : 16)),
                        number_after(argc, argv, "--length-us", 1000),
                        has_flag(argc, argv, "--uneven")};
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events(static_cast<std::size_t>(pattern.streams) *
                                  static_cast<std::size_t>(pattern.rounds));
  for (int i = 0; i < pattern.streams; ++i)
    streams.push_back(new_stream());
  for (cudaEvent_t& event : events)
    CUDA_OK(cudaEventCreate(&event));
  cudaEvent_t before = nullptr;
  CUDA_OK(cudaEventCreate(&before));
  void* stays = device_memory(kStays);
  overlap_kernel<<<1, 1, 0, streams[0]>>>(static_cast<Word*>(stays), 0);
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaDeviceSynchronize());

  CUDA_OK(cudaEventRecord(before, streams[0]));
  long long held = 0;
  const double start = now_us();
  const std::vector<Run> runs = submit(pattern, streams, events, &held);
  const double host_us = now_us() - start;
  CUDA_OK(cudaDeviceSynchronize());

  // A kernel may have been made to wait after an event before it: its begin is its end less its
  // length.
  std::vector<double> ends;
  double first = 1e18;
  double last = 0;
  double sum = 0;
  for (const Run& each : runs) {
    float ms = 0;
    CUDA_OK(cudaEventElapsedTime(&ms, before, each.ended));
    ends.push_back(ms * 1000.0);
    first = std::min(first, ends.back() - each.length_us);
    last = std::max(last, ends.back());
    sum += each.length_us;
  }
  for (std::size_t i = 0; i < runs.size(); ++i)
    std::printf("kernel %d %.1f %.1f\n",
                runs[i].stream,
                ends[i] - runs[i].length_us - first,
                ends[i] - first);
  CUDA_OK(cudaFree(stays));

  Report report;
  const double overlap = sum / (last - first);
  report.check(overlap > 0.5 && overlap < pattern.streams + 0.05,
               pattern.uneven ? "overlap_uneven" : "overlap_even",
               "streams=%d kernels=%zu overlap=%.3f held_mib=%lld ms=%.3f host_ms=%.3f",
               pattern.streams,
               runs.size(),
               overlap,
               held / static_cast<long long>(kMiB),
               (last - first) / 1000,
               host_us / 1000);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
