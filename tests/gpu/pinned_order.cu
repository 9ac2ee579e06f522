// SPDX-License-Identifier: MIT
// Buffers that are freed while copies from them, or kernels that read them, are still to come,
// and whose bytes the host writes again at once: whatever arrives must be what was there at the
// call.
//
//   pinned_order [--quick]
#include "kernels.cuh"

#include <thread>

namespace gpu {

constexpr unsigned long long kLateNs = 2'000'000;
constexpr std::size_t kSizes[] = {512, 64 * kKiB, kMiB, 8 * kMiB};

// How work uses a buffer that is freed behind it.
enum class Use { Copy, Kernel };

struct Tally {
  int rounds = 0;
  int same = 0;  // a later buffer had bytes of one in flight: only then could anything go wrong
  unsigned long long wrong = 0;
  std::vector<double> free_us;

  void add(const Tally& other) {
    rounds += other.rounds;
    same += other.same;
    wrong += other.wrong;
    free_us.insert(free_us.end(), other.free_us.begin(), other.free_us.end());
  }
};

void fill_host(void* p, std::size_t bytes, Word pattern) {
  std::fill_n(static_cast<Word*>(p), bytes / sizeof(Word), pattern);
}

// A row of buffers, each filled, used late on one of the streams, freed at once; the next one
// is filled at once. Then all targets are looked at.
Tally row(const std::vector<cudaStream_t>& streams,
          std::size_t bytes,
          Use use,
          int rounds,
          WrongWords& wrong) {
  constexpr int kRow = 8;
  Tally tally;
  std::vector<void*> targets;
  for (int i = 0; i < kRow; ++i)
    targets.push_back(device_memory(bytes));
  for (int round = 0; round < rounds; ++round) {
    std::vector<void*> seen;
    for (cudaStream_t stream : streams)
      spin(stream, kLateNs);
    for (int i = 0; i < kRow; ++i) {
      const Word pattern = 0x30000u + static_cast<Word>(round * kRow + i);
      cudaStream_t stream = streams[static_cast<std::size_t>(i) % streams.size()];
      void* host = nullptr;
      CUDA_OK(cudaMallocHost(&host, bytes));
      tally.same += std::count(seen.begin(), seen.end(), host) != 0 ? 1 : 0;
      seen.push_back(host);
      fill_host(host, bytes, pattern);
      if (use == Use::Copy) {
        CUDA_OK(cudaMemcpyAsync(targets[i], host, bytes, cudaMemcpyHostToDevice, stream));
      } else {
        verify(stream, host, bytes, pattern, wrong.device());
      }
      const double start = now_us();
      CUDA_OK(cudaFreeHost(host));
      tally.free_us.push_back(now_us() - start);
    }
    CUDA_OK(cudaDeviceSynchronize());
    for (int i = 0; use == Use::Copy && i < kRow; ++i)
      tally.wrong +=
          wrong.in(targets[i], bytes, 0x30000u + static_cast<Word>(round * kRow + i));
    if (use == Use::Kernel) tally.wrong += wrong.take();
    ++tally.rounds;
  }
  for (void* target : targets)
    CUDA_OK(cudaFree(target));
  return tally;
}

// A copy to the host is read as soon as another buffer was freed, as bare allows.
Tally read_after_free(cudaStream_t stream, std::size_t bytes, int rounds) {
  Tally tally;
  void* source = device_memory(bytes);
  for (int round = 0; round < rounds; ++round) {
    const Word pattern = 0x50000u + static_cast<Word>(round);
    void* host = nullptr;
    void* other = nullptr;
    CUDA_OK(cudaMallocHost(&host, bytes));
    CUDA_OK(cudaMallocHost(&other, bytes));
    fill(stream, source, bytes, pattern, 300'000);
    CUDA_OK(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, stream));
    const double start = now_us();
    CUDA_OK(cudaFreeHost(other));
    tally.free_us.push_back(now_us() - start);
    const auto* words = static_cast<const volatile Word*>(host);
    for (std::size_t i = 0; i < bytes / sizeof(Word); ++i)
      tally.wrong += words[i] != pattern;
    ++tally.rounds;
    CUDA_OK(cudaFreeHost(host));
  }
  CUDA_OK(cudaFree(source));
  return tally;
}

void tell(Report& report, const std::string& name, const Tally& tally) {
  report.check(tally.wrong == 0,
               name,
               "rounds=%d same=%d wrong=%llu free_median_us=%.2f free_worst_us=%.1f",
               tally.rounds,
               tally.same,
               tally.wrong,
               median(tally.free_us),
               worst(tally.free_us));
}

// Threads with a stream each; what one has freed another may get.
Tally threads(std::size_t bytes, int count, int rounds) {
  std::vector<Tally> tallies(static_cast<std::size_t>(count));
  std::vector<std::thread> workers;
  for (Tally& tally : tallies) {
    workers.emplace_back([&tally, bytes, rounds] {
      constexpr Word kGood = 0x77770000u;
      cudaStream_t stream = new_stream();
      void* target = device_memory(bytes);
      std::vector<Word> back(bytes / sizeof(Word));
      for (int round = 0; round < rounds; ++round) {
        const Word pattern = kGood + static_cast<Word>(round);
        void* host = nullptr;
        CUDA_OK(cudaMallocHost(&host, bytes));
        fill_host(host, bytes, pattern);
        spin(stream, 300'000);
        CUDA_OK(cudaMemcpyAsync(target, host, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_OK(cudaFreeHost(host));
        // Whoever gets the bytes writes at once.
        void* next = nullptr;
        CUDA_OK(cudaMallocHost(&next, bytes));
        fill_host(next, bytes, 0xDEADu);
        CUDA_OK(cudaFreeHost(next));
        CUDA_OK(cudaMemcpyAsync(back.data(), target, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        for (const Word word : back)
          tally.wrong += word != pattern;
        ++tally.rounds;
      }
      CUDA_OK(cudaFree(target));
      CUDA_OK(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& worker : workers)
    worker.join();
  Tally sum;
  for (const Tally& tally : tallies)
    sum.add(tally);
  return sum;
}

int run(int argc, char** argv) {
  need_devices(1);
  const int rounds = has_flag(argc, argv, "--quick") ? 4 : 25;
  WrongWords wrong;
  std::vector<cudaStream_t> streams{new_stream(), new_stream(), new_stream()};
  for (cudaStream_t stream : streams)
    warm_up(stream, wrong);
  Report report;
  for (const std::size_t bytes : kSizes) {
    const std::string size = "_" + std::to_string(bytes);
    tell(report,
         "pinned_copy_one_stream" + size,
         row({streams[0]}, bytes, Use::Copy, rounds, wrong));
    tell(report,
         "pinned_copy_three_streams" + size,
         row(streams, bytes, Use::Copy, rounds, wrong));
    tell(report,
         "pinned_copy_legacy" + size,
         row({cudaStreamLegacy, streams[1]}, bytes, Use::Copy, rounds, wrong));
    tell(report,
         "pinned_read_by_kernel" + size,
         row(streams, bytes, Use::Kernel, rounds, wrong));
    tell(report, "pinned_read_after_free" + size, read_after_free(streams[0], bytes, rounds));
    tell(report, "pinned_threads" + size, threads(bytes, 6, rounds));
  }
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
