// SPDX-License-Identifier: MIT
// Processes that fork, go on in threads, and end in the middle of things.
#include "tests/conformance/cases.hpp"

#include <cstdlib>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace conformance {
namespace {

// The child's status; what it says comes first.
template <typename Work>
int in_child(Work work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void* left = nullptr;

}  // namespace

CASE(life_fork_before_cuda) {
  SAY(in_child([] {
    void* p = nullptr;
    SAY(cudaMalloc(&p, 5000));
    SAY(cudaFree(p));
  }));
  void* p = nullptr;
  SAY(cudaMalloc(&p, 5000));
  SAY(cudaFree(p));
}

// CUDA is of no use in the child; the parent goes on.
CASE(life_fork_with_memory) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, 5000));
  SAY(in_child([] { (void)0; }));
  SAY(cudaMemset(p, 2, 5000));
  SAY(wrong_words(p, 4996, 0x02020202));
  SAY(cudaFree(p));
}

CASE(life_exec) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, 5000));
  SAY(in_child([] { execl("/bin/sh", "sh", "-c", "exit 4", static_cast<char*>(nullptr)); }));
  SAY(cudaFree(p));
}

CASE(life_exit_with_memory) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, 30 * kMiB));
  SAY(cudaMemsetAsync(p, 1, 30 * kMiB, nullptr));
  SAY(cudaMalloc(&p, 100));
  SAY(cudaMallocHost(&p, 100));
}

CASE(life_frees_at_exit) {
  std::atexit([] { std::printf("%d freed\n", static_cast<int>(cudaFree(left))); });
  SAY(cudaMalloc(&left, 5000));
  std::atexit([] { std::printf("%d freed first\n", static_cast<int>(cudaFree(left))); });
  std::fflush(stdout);
}

CASE(life_exit_of_a_thread) {
  SAY(cudaFree(nullptr));
  std::vector<void*> blocks(64);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> threads;
    for (void*& p : blocks)
      threads.emplace_back([&p, round] {
        if (round % 2 == 0) {
          cudaMalloc(&p, 3000);
        } else {
          cudaFree(p);
        }
      });
    for (std::thread& each : threads)
      each.join();
  }
  SAY(cudaGetLastError());
  void* p = nullptr;
  SAY(cudaMalloc(&p, 3000));
  SAY(cudaFree(p));
}

}  // namespace conformance
