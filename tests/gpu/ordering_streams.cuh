// SPDX-License-Identifier: MIT
// Ordering checks about streams: which stream the first owner's late work is on, which stream
// the second owner uses, when that stream was made, and what the streams did before.
#pragma once

#include "ordering_bed.cuh"

#include <future>
#include <thread>

namespace gpu {

constexpr std::size_t kSmallSizes[] = {512, 4 * kKiB, 100'000, kMiB};
constexpr std::size_t kLargeSizes[] = {3 * kMiB, 20 * kMiB, 64 * kMiB, 300 * kMiB};
constexpr std::size_t kBothSizes[] = {4 * kKiB, 3 * kMiB};  // one slab-like, one larger

inline void late_writers(Bed& bed, const std::size_t (&sizes)[4]) {
  for (const std::size_t bytes : sizes) {
    Tally tally;
    for (int i = 0; i < bed.rounds(20); ++i) {
      bed.play(tally, usual(bytes, i % 2 ? bed.a : bed.b, i % 2 ? bed.b : bed.a));
    }
    bed.tell("late_writer_" + std::to_string(bytes), tally);
  }
}

inline void late_writer_small(Bed& bed) {
  late_writers(bed, kSmallSizes);
}

inline void late_writer_large(Bed& bed) {
  late_writers(bed, kLargeSizes);
}

inline void pair(Bed& bed, const char* name, const Work& first, const Work& second) {
  Tally tally;
  for (int i = 0; i < bed.rounds(10); ++i) {
    for (const std::size_t bytes : kBothSizes) {
      Round round;
      round.bytes = bytes;
      round.first = first;
      round.second = second;
      bed.play(tally, round);
    }
  }
  bed.tell(name, tally);
}

// The second owner's stream does not exist yet at the free, and may be gone before its work is.
inline void stream_created_later(Bed& bed) {
  const auto fresh = [&bed](void* p, std::size_t bytes) {
    cudaStream_t stream = new_stream();
    fill(stream, p, bytes, kSecond);
    bed.keep([stream] { CUDA_OK(cudaStreamDestroy(stream)); });
  };
  pair(bed, "stream_created_later", late_on(bed.a), fresh);
  const auto brief = [](void* p, std::size_t bytes) {
    cudaStream_t stream = new_stream();
    fill(stream, p, bytes, kSecond);
    CUDA_OK(cudaStreamDestroy(stream));
  };
  pair(bed, "stream_created_later_and_destroyed", late_on(bed.a), brief);
  const auto gone = [](void* p, std::size_t bytes) {
    cudaStream_t stream = new_stream();
    fill(stream, p, bytes, kFirst, kLateNs);
    CUDA_OK(cudaStreamDestroy(stream));
  };
  pair(bed, "stream_destroyed_before_free", gone, second_on(bed.b));
}

inline void default_stream(Bed& bed) {
  pair(bed, "default_stream_second", late_on(bed.a), second_on(cudaStreamLegacy));
  pair(bed, "default_stream_first", late_on(cudaStreamLegacy), second_on(bed.b));
  pair(bed, "null_stream_second", late_on(bed.a), second_on(nullptr));
  cudaStream_t blocking = nullptr;
  CUDA_OK(cudaStreamCreate(&blocking));
  pair(bed, "blocking_stream_first", late_on(blocking), second_on(bed.b));
  pair(bed, "blocking_stream_second", late_on(bed.a), second_on(blocking));
  CUDA_OK(cudaStreamDestroy(blocking));
}

// One handle names another stream in each thread.
inline void per_thread_stream(Bed& bed) {
  pair(bed, "per_thread_stream_second", late_on(bed.a), second_on(cudaStreamPerThread));
  pair(bed, "per_thread_stream_first", late_on(cudaStreamPerThread), second_on(bed.b));
  const auto elsewhere = [&bed](void* p, std::size_t bytes) {
    auto submitted = std::make_shared<std::promise<void>>();
    auto ended = std::make_shared<std::promise<void>>();
    // The thread outlives the round: its stream must not end with it.
    auto thread = std::make_shared<std::thread>([=] {
      CUDA_OK(cudaSetDevice(0));
      fill(cudaStreamPerThread, p, bytes, kFirst, kLateNs);
      submitted->set_value();
      ended->get_future().wait();
    });
    submitted->get_future().wait();
    bed.keep([=] {
      ended->set_value();
      thread->join();
    });
  };
  pair(bed, "per_thread_stream_of_two_threads", elsewhere, second_on(cudaStreamPerThread));
}

// The block passes through a second owner, who works briefly or not at all, to a third.
inline void three_stream_steal(Bed& bed) {
  for (const bool worked : {true, false}) {
    Tally tally;
    for (int i = 0; i < bed.rounds(20); ++i) {
      const std::size_t bytes = kBothSizes[i % 2];
      void* x = device_memory(bytes);
      const double start = now_us();
      fill(bed.a, x, bytes, kFirst, kLateNs);
      tally.free_us.push_back(bed.timed_free(x));
      void* y = bed.take_again(x, bytes);
      if (worked) fill(bed.b, y, bytes, kSecond);
      tally.free_us.push_back(bed.timed_free(y));
      void* z = bed.take_again(y, bytes);
      bed.count_same(tally, x, z, bytes, start);
      fill(bed.c, z, bytes, kThird);
      ++tally.rounds;
      tally.wrong += bed.wrong.in(z, bytes, kThird);
      CUDA_OK(cudaFree(z));
      bed.settle();
    }
    bed.tell(worked ? "three_stream_steal" : "three_stream_steal_untouched", tally);
  }
}

// As cuBLAS and cuDNN do: a second stream takes two memsets and is left alone. Everything then
// happens on the default stream, until the second stream wakes up.
inline void library_stream(Bed& bed) {
  cudaStream_t library = new_stream();
  void* own = device_memory(kMiB);
  CUDA_OK(cudaMemsetAsync(own, 0, kMiB, library));
  CUDA_OK(cudaMemsetAsync(own, 1, kMiB, library));
  Tally tally;
  for (int i = 0; i < bed.rounds(300); ++i) {
    const std::size_t bytes = kBothSizes[i % 2];
    void* p = device_memory(bytes);
    fill(cudaStreamLegacy, p, bytes, kFirst, 20'000);
    tally.free_us.push_back(bed.timed_free(p));
    void* q = device_memory(bytes);
    fill(cudaStreamLegacy, q, bytes, kSecond);
    verify(cudaStreamLegacy, q, bytes, kSecond, bed.wrong.device());
    CUDA_OK(cudaFree(q));
    ++tally.rounds;
    if (i % 15 != 14) continue;
    tally.wrong += bed.wrong.take();
    bed.play(tally,
             i % 2 ? usual(bytes, cudaStreamLegacy, library)
                   : usual(bytes, library, cudaStreamLegacy));
  }
  tally.wrong += bed.wrong.take();
  bed.tell("library_stream", tally);
  CUDA_OK(cudaFree(own));
  CUDA_OK(cudaStreamDestroy(library));
}

}  // namespace gpu
