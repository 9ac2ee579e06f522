// SPDX-License-Identifier: MIT
// Planted uses of wrong addresses at known lines, for checks.py. Arguments: what to do, in
// turn.
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

namespace {

constexpr std::size_t kSize = 4000;

// Null where memory has run out.
void* take(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, bytes);  // @take
  if (error == cudaSuccess || error == cudaErrorMemoryAllocation) return block;
  std::exit(9);
}

void use_after_free() {
  void* const block = take(1 << 20);
  cudaFree(block);
  cudaMemset(block, 0, 16);  // @after
}

void overrun() {
  void* const block = take(kSize);
  cudaMemset(block, 0, kSize + 1);  // @over
  cudaFree(block);
}

void copy_past_the_end() {
  char host[kSize + 1] = {};
  void* const block = take(kSize);
  cudaMemcpy(block, host, sizeof host, cudaMemcpyHostToDevice);  // @copy
  cudaFree(block);
}

void free_twice() {
  void* const block = take(kSize);
  cudaFree(block);
  cudaFree(block);  // @twice
}

void use_rightly() {
  void* const block = take(kSize);
  cudaMemset(block, 0, kSize);
  cudaFree(block);
}

// The last of `count` living blocks.
void overrun_the_last(int count) {
  std::vector<void*> all;
  for (int i = 0; i < count; ++i)
    all.push_back(take(kSize));
  cudaMemset(all.back(), 0, kSize + 1);
  for (void* const block : all)
    cudaFree(block);
}

// Two streams and no order between them.
void race() {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  void* block = nullptr;
  cudaMallocAsync(&block, kSize, first);
  cudaStreamSynchronize(first);
  cudaMemsetAsync(block, 0, kSize, second);  // @use
  cudaFreeAsync(block, first);               // @race
}

void run_out() {
  while (take(1 << 30) != nullptr) {
  }
}

void use_only_the_device() {
  cudaFree(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  struct Step {
    const char* name;
    void (*run)();
  };

  constexpr Step kSteps[] = {{"after", use_after_free},
                             {"over", overrun},
                             {"copy", copy_past_the_end},
                             {"twice", free_twice},
                             {"right", use_rightly},
                             {"race", race},
                             {"device", use_only_the_device},
                             {"oom", run_out},
                             {"leak", [] { take(kSize); }},
                             {"abort", [] { std::abort(); }},
                             {"kill", [] { kill(getpid(), 9); }},
                             {"interrupt", [] { kill(getpid(), 2); }},
                             {"_exit", [] { _exit(6); }},
                             {"fail", [] { std::exit(5); }}};
  for (int i = 1; i < argc; ++i) {
    for (const Step& step : kSteps)
      if (std::strcmp(step.name, argv[i]) == 0) step.run();
    if (const int count = std::atoi(argv[i]); count != 0) overrun_the_last(count);
  }
  cudaDeviceSynchronize();  // the clock of the simulated device stands still meanwhile
}
