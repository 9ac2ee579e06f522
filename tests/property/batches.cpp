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

Tally run_batches(std::uint64_t seed,
                  std::uint64_t wanted,
                  std::uint64_t enough,
                  const std::function<void(Tally* tally)>& one,
                  const std::function<void(std::uint64_t, const std::string&)>& crashed) {
  // Where a child says how far it is.
  void* const page =
      mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {.next = seed, .failed = 1};
  auto* const told = new (page) Tally{.next = seed};
  Tally tally = *told;
  while (tally.programs < wanted && tally.failed < enough) {
    const std::uint64_t until = std::min(wanted, tally.programs + kBatch);
    const int code = in_child([&] {
      for (; tally.programs < until && tally.failed < enough; ++tally.next) {
        *told = tally;
        one(&tally);
      }
      *told = tally;
      return 0;
    });
    tally = *told;
    if (code == 0) continue;
    ++tally.failed;
    ++tally.programs;
    crashed(tally.next++, "child ended with " + std::to_string(code));
  }
  munmap(page, sizeof(Tally));
  return tally;
}

}  // namespace custash::property
