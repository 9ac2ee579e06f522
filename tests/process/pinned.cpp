// SPDX-License-Identifier: MIT
// Pinned memory in a process's life. Argument: which part. What is said must be the same bare
// and preloaded, but for the lines that begin with #.
#include "tests/process/pinned_answers.hpp"

#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace answers;

constexpr std::size_t kBytes = 100'000;
void* late = nullptr;

// Built before the runtime's first use, so destroyed after the driver's own exit handler.
struct Global {
  ~Global() {
    if (late != nullptr) SAY(cudaFreeHost(late));
  }
} global;

// The child may not use CUDA, but the memory is its, too.
void forked() {
  void* p = nullptr;
  void* large = nullptr;
  SAY(cudaMallocHost(&p, kBytes));
  SAY(cudaMallocHost(&large, kLarge));
  std::memset(p, 5, kBytes);
  std::memset(large, 6, kLarge);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool seen = *at(p, kBytes - 1) == 5 && *at(large, kLarge - 1) == 6;
    std::memset(p, 7, kBytes);
    std::memset(large, 8, kLarge);
    void* more = nullptr;
    std::printf("# child malloc %d free %d %lld\n",
                cudaMallocHost(&more, kBytes),
                cudaFreeHost(p),
                served());
    std::fflush(stdout);
    _exit(seen ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  SAY(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  SAY(*at(p, kBytes - 1));
  SAY(*at(large, 0));
  SAY(cudaFreeHost(p));
  SAY(cudaFreeHost(large));
  SAY(cudaMallocHost(&p, kBytes));
  SAY(cudaFreeHost(p));
}

void reset() {
  for (int i = 0; i < 3; ++i) {
    void* device = nullptr;
    void* live = nullptr;
    void* flying = nullptr;
    cudaStream_t stream = nullptr;
    SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    SAY(cudaMalloc(&device, kLarge));
    SAY(cudaMallocHost(&live, kBytes));
    SAY(cudaMallocHost(&flying, kLarge));
    std::memset(flying, i, kLarge);
    SAY(cudaMemcpyAsync(device, flying, kLarge, cudaMemcpyHostToDevice, stream));
    SAY(cudaFreeHost(flying));
    SAY(cudaDeviceReset());
    SAY(cudaFreeHost(live));  // ended with its context
    SAY(cudaGetLastError());
  }
  void* p = nullptr;
  SAY(cudaMallocHost(&p, kBytes));
  std::memset(p, 1, kBytes);
  SAY(cudaFreeHost(p));
}

void free_at_exit() {
  SAY(cudaMallocHost(&late, kBytes));
  SAY(std::atexit([] {
    SAY(cudaFreeHost(late));
    late = nullptr;
  }));
}

void free_statically() {
  SAY(cudaMallocHost(&late, kBytes));
}

void churn() {
  int failed = 0;
  for (int i = 0; i < 1000; ++i) {
    void* p = nullptr;
    const std::size_t bytes = 777U + 40960U * static_cast<unsigned>(i % 7);
    failed += cudaMallocHost(&p, bytes) != cudaSuccess;
    std::memset(p, i, bytes);
    failed += cudaFreeHost(p) != cudaSuccess;
  }
  SAY(failed);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const which = argc > 1 ? argv[1] : "";
  SAY(cudaFree(nullptr));  // the context is there
  if (std::strcmp(which, "answers") == 0) say_all();
  if (std::strcmp(which, "fork") == 0) forked();
  if (std::strcmp(which, "reset") == 0) reset();
  if (std::strcmp(which, "atexit") == 0) free_at_exit();
  if (std::strcmp(which, "static") == 0) free_statically();
  if (std::strcmp(which, "churn") == 0) churn();
  std::printf("# served %lld\n", served());
  return 0;
}
