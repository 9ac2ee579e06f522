// SPDX-License-Identifier: MIT
// Ordering checks with six threads on six streams that take, write, check and free the same
// sizes at once, never waiting. Each block gets a pattern of its own: a block in two hands
// shows. The threads share the counter of wrong words on the device and, in the exchange, a
// list under a mutex.
#pragma once

#include "ordering_bed.cuh"

#include <mutex>
#include <random>
#include <thread>

namespace gpu {

constexpr int kThreads = 6;
constexpr std::size_t kThreadSizes[] = {512, 4 * kKiB, 64 * kKiB, kMiB, 3 * kMiB};

// Blocks on their way from the thread that used them to the one that frees them.
class Exchange {
 public:
  // Leaves p, takes a block that another thread left; null while there are few.
  void* swap(void* p) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back(p);
    if (blocks_.size() <= kThreads) return nullptr;
    void* other = blocks_.front();
    blocks_.erase(blocks_.begin());
    return other;
  }

  std::vector<void*> rest() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(blocks_);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> blocks_;
};

enum class ThreadStreams { Own, PerThread };
enum class FreedBy { Owner, OtherThread };

inline void thread_rounds(
    Bed& bed, int index, int rounds, ThreadStreams streams, Exchange* exchange) {
  CUDA_OK(cudaSetDevice(0));
  cudaStream_t stream = streams == ThreadStreams::Own ? new_stream() : cudaStreamPerThread;
  std::mt19937 random(static_cast<unsigned>(index) + 1);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = kThreadSizes[random() % std::size(kThreadSizes)];
    const Word pattern = (static_cast<Word>(index + 1) << 24) + static_cast<Word>(round);
    void* p = device_memory(bytes);
    fill(stream, p, bytes, pattern, random() % 4 == 0 ? 100'000 : 0);
    verify(stream, p, bytes, pattern, bed.wrong.device(), 30'000);
    void* goes = exchange != nullptr ? exchange->swap(p) : p;
    if (goes != nullptr) CUDA_OK(cudaFree(goes));
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  if (streams == ThreadStreams::Own) CUDA_OK(cudaStreamDestroy(stream));
}

inline void six_threads(Bed& bed, const char* name, ThreadStreams streams, FreedBy freed_by) {
  const int rounds = bed.rounds(400);
  Exchange exchange;
  const double start = now_us();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(thread_rounds,
                         std::ref(bed),
                         i,
                         rounds,
                         streams,
                         freed_by == FreedBy::Owner ? nullptr : &exchange);
  }
  for (std::thread& thread : threads)
    thread.join();
  const double took_ms = (now_us() - start) / 1000;
  for (void* p : exchange.rest())
    CUDA_OK(cudaFree(p));
  const unsigned long long wrong = bed.wrong.take();
  bed.all.rounds += rounds * kThreads;
  bed.all.wrong += wrong;
  bed.report.check(
      wrong == 0, name, "rounds=%d wrong=%llu ms=%.1f", rounds * kThreads, wrong, took_ms);
}

inline void threads(Bed& bed) {
  six_threads(bed, "six_threads", ThreadStreams::Own, FreedBy::Owner);
  six_threads(bed, "six_threads_per_thread_stream", ThreadStreams::PerThread, FreedBy::Owner);
  six_threads(bed, "six_threads_freed_by_another", ThreadStreams::Own, FreedBy::OtherThread);
}

}  // namespace gpu
