// SPDX-License-Identifier: MIT
// Ordering checks about kinds of work: every way to submit work must count as late work of the
// first owner, and must be held back for the second owner.
#pragma once

#include "ordering_bed.cuh"

namespace gpu {

// Sources of copies: device and pinned memory full of kFirst and kSecond, and pageable kSecond.
struct Sources {
  static constexpr std::size_t kBytes = 3 * kMiB;

  Sources() {
    for (Word* pinned : {first_pinned, second_pinned}) {
      std::fill_n(pinned, kBytes / sizeof(Word), pinned == first_pinned ? kFirst : kSecond);
    }
    CUDA_OK(cudaMemcpy(first_device, first_pinned, kBytes, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(second_device, second_pinned, kBytes, cudaMemcpyHostToDevice));
  }

  static Word* pinned_memory() {
    void* p = nullptr;
    CUDA_OK(cudaMallocHost(&p, kBytes));
    return static_cast<Word*>(p);
  }

  Word* first_pinned = pinned_memory();
  Word* second_pinned = pinned_memory();
  void* first_device = device_memory(kBytes);
  void* second_device = device_memory(kBytes);
  std::vector<Word> second_pageable = std::vector<Word>(kBytes / sizeof(Word), kSecond);
};

// Launches a graph of one fill. The graph lives until the round is over.
inline void fill_by_graph(Bed& bed,
                          cudaStream_t stream,
                          void* p,
                          std::size_t bytes,
                          Word pattern,
                          unsigned long long spin_ns) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  fill(stream, p, bytes, pattern, spin_ns);
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CUDA_OK(cudaGraphLaunch(exec, stream));
  bed.keep([=] {
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
  });
}

inline void play_kinds(Bed& bed,
                       const std::string& name,
                       const Work& first,
                       const Work& second) {
  Tally tally;
  for (int i = 0; i < bed.rounds(10); ++i) {
    Round round;
    round.bytes = i % 2 ? Sources::kBytes : 4 * kKiB;
    round.first = first;
    round.second = second;
    bed.play(tally, round);
  }
  bed.tell(name, tally);
}

inline void late_kinds(Bed& bed) {
  const Sources from;
  cudaStream_t a = bed.a;
  // Each late by the spin before it.
  const auto after_spin = [a](const Work& work) -> Work {
    return [a, work](void* p, std::size_t bytes) {
      spin(a, kLateNs);
      work(p, bytes);
    };
  };
  const Work second = second_on(bed.b);
  play_kinds(bed,
             "late_memset",
             after_spin([a](void* p, std::size_t bytes) {
               CUDA_OK(cudaMemsetAsync(p, kFirst & 0xFF, bytes, a));
             }),
             second);
  play_kinds(
      bed,
      "late_copy_device_to_device",
      after_spin([&](void* p, std::size_t bytes) {
        CUDA_OK(cudaMemcpyAsync(p, from.first_device, bytes, cudaMemcpyDeviceToDevice, a));
      }),
      second);
  play_kinds(bed,
             "late_copy_from_pinned",
             after_spin([&](void* p, std::size_t bytes) {
               CUDA_OK(cudaMemcpyAsync(p, from.first_pinned, bytes, cudaMemcpyHostToDevice, a));
             }),
             second);
  play_kinds(
      bed,
      "late_copy_2d",
      after_spin([&](void* p, std::size_t bytes) {
        CUDA_OK(cudaMemcpy2DAsync(
            p, 1024, from.first_device, 1024, 1024, bytes / 1024, cudaMemcpyDeviceToDevice, a));
      }),
      second);
  play_kinds(
      bed,
      "late_graph",
      [&](void* p, std::size_t bytes) { fill_by_graph(bed, a, p, bytes, kFirst, kLateNs); },
      second);
}

inline void second_kinds(Bed& bed) {
  const Sources from;
  cudaStream_t b = bed.b;
  const Work first = late_on(bed.a);
  play_kinds(bed, "second_memset", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemsetAsync(p, kSecond & 0xFF, bytes, b));
  });
  play_kinds(bed, "second_memset_synchronous", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemset(p, kSecond & 0xFF, bytes));
  });
  play_kinds(bed, "second_copy_device_to_device", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemcpyAsync(p, from.second_device, bytes, cudaMemcpyDeviceToDevice, b));
  });
  play_kinds(bed, "second_copy_from_pinned", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemcpyAsync(p, from.second_pinned, bytes, cudaMemcpyHostToDevice, b));
  });
  play_kinds(bed, "second_copy_synchronous", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemcpy(p, from.second_pageable.data(), bytes, cudaMemcpyHostToDevice));
  });
  play_kinds(bed, "second_copy_2d", first, [&](void* p, std::size_t bytes) {
    CUDA_OK(cudaMemcpy2DAsync(
        p, 1024, from.second_device, 1024, 1024, bytes / 1024, cudaMemcpyDeviceToDevice, b));
  });
  play_kinds(bed, "second_graph", first, [&](void* p, std::size_t bytes) {
    fill_by_graph(bed, b, p, bytes, kSecond, 0);
  });
}

// A late reader: what it copies must still be the first owner's.
inline void late_reader(Bed& bed) {
  void* copy = device_memory(Sources::kBytes);
  Tally tally;
  for (int i = 0; i < bed.rounds(20); ++i) {
    const std::size_t bytes = i % 2 ? Sources::kBytes : 4 * kKiB;
    void* p = device_memory(bytes);
    fill(bed.a, p, bytes, kFirst);
    CUDA_OK(cudaStreamSynchronize(bed.a));
    const double start = now_us();
    spin(bed.a, kLateNs);
    CUDA_OK(cudaMemcpyAsync(copy, p, bytes, cudaMemcpyDeviceToDevice, bed.a));
    tally.free_us.push_back(bed.timed_free(p));
    void* q = bed.take_again(p, bytes);
    bed.count_same(tally, p, q, bytes, start);
    fill(bed.b, q, bytes, kSecond);
    ++tally.rounds;
    tally.wrong += bed.wrong.in(copy, bytes, kFirst);
    tally.wrong += bed.wrong.in(q, bytes, kSecond);
    CUDA_OK(cudaFree(q));
    bed.settle();
  }
  bed.tell("late_reader", tally);
  CUDA_OK(cudaFree(copy));
}

}  // namespace gpu
