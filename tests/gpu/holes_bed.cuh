// SPDX-License-Identifier: MIT
// What the parts of holes.cu share: streams, a block whose last owner's kernel still runs, and
// a kernel that waits for another.
#pragma once

#include "driver_calls.cuh"
#include "kernels.cuh"

namespace gpu {

constexpr Word kLate = 0xA5A5A5A5;
constexpr Word kNext = 0x5B5B5B5B;
constexpr unsigned long long kLateNs = 20'000'000;
constexpr std::size_t kBlock = 4 * kMiB;

static __global__ void set_flag(volatile Word* flag) {
  __threadfence();
  *flag = 1;
}

// Blocks until one begins at `wanted`; those that came before go to `between`.
inline void* take_at(const void* wanted, std::size_t bytes, std::vector<void*>* between) {
  const std::size_t most =
      std::min<std::size_t>(8192, std::max<std::size_t>(4, 700 * kMiB / bytes));
  for (std::size_t i = 1;; ++i) {
    void* q = device_memory(bytes);
    if (q == wanted || i == most) return q;
    between->push_back(q);
  }
}

struct HolesBed {
  HolesBed() {
    for (cudaStream_t each : {s, t, u})
      warm_up(each, wrong);
    set_flag<<<1, 1, 0, s>>>(flag);  // loaded before anything waits
    wait_flag<<<1, 1, 0, s>>>(flag, outcome);
    CUDA_OK(cudaDeviceSynchronize());
  }

  // Freed under a kernel that writes late, and had again. The first few may come from
  // elsewhere.
  void* owed_block(std::size_t bytes = kBlock) {
    for (int i = 0;; ++i) {
      void* p = device_memory(bytes);
      fill(s, p, bytes, kLate, kLateNs);
      CUDA_OK(cudaFree(p));
      void* q = take_at(p, bytes, &between);
      same = p == q;
      if (same || i == 5) return q;
      settle(q);
    }
  }

  // Gives back a block, and what was taken to get it.
  void settle(void* q) {
    CUDA_OK(cudaDeviceSynchronize());
    between.push_back(q);
    for (void* each : between)
      CUDA_OK(cudaFree(each));
    between.clear();
  }

  // A kernel on t that waits for one that sets the flag.
  void begin_pair() {
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemset(flag, 0, sizeof(Word)));
    CUDA_OK(cudaMemset(outcome, 0, sizeof(Word)));
    CUDA_OK(cudaDeviceSynchronize());
  }

  bool end_pair() {
    set_flag<<<1, 1, 0, u>>>(flag);
    CUDA_OK(cudaDeviceSynchronize());
    Word seen = 0;
    CUDA_OK(cudaMemcpy(&seen, outcome, sizeof seen, cudaMemcpyDeviceToHost));
    return seen == kSeen;
  }

  WrongWords wrong;
  cudaStream_t s = new_stream(), t = new_stream(), u = new_stream();
  Word* flag = static_cast<Word*>(device_memory(512));
  Word* outcome = static_cast<Word*>(device_memory(512));
  bool same = false;  // the bytes came back: else a check could not have failed
  std::vector<void*> between;
};

}  // namespace gpu
