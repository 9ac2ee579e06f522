// SPDX-License-Identifier: MIT
#include "tests/property/batches.hpp"

#include <algorithm>
#include <cstdio>
#include <new>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::property {
namespace {

constexpr std::uint64_t kBatch = 200;

// Runs `body` in a child; its exit code, or -signal.
int in_child(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);  // a batch takes a second or two, a shrink ten
    const int code = body();
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

StatsDelta run_batches(std::uint64_t seed,
                       std::uint64_t wanted,
                       std::uint64_t enough,
                       const std::function<void(StatsDelta* stats_delta)>& one,
                       const std::function<void(std::uint64_t, const std::string&)>& crashed) {
  // Where a child says how far it is.
  void* const page = mmap(
      nullptr, sizeof(StatsDelta), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {.next = seed, .failed = 1};
  auto* const told = new (page) StatsDelta{.next = seed};
  StatsDelta stats_delta = *told;
  while (stats_delta.programs < wanted && stats_delta.failed < enough) {
    const std::uint64_t until = std::min(wanted, stats_delta.programs + kBatch);
    const int code = in_child([&] {
      for (; stats_delta.programs < until && stats_delta.failed < enough; ++stats_delta.next) {
        *told = stats_delta;
        one(&stats_delta);
      }
      *told = stats_delta;
      return 0;
    });
    stats_delta = *told;
    if (code == 0) continue;
    ++stats_delta.failed;
    ++stats_delta.programs;
    crashed(stats_delta.next++, "child ended with " + std::to_string(code));
  }
  munmap(page, sizeof(StatsDelta));
  return stats_delta;
}

}  // namespace custash::property
