// SPDX-License-Identifier: MIT
#include "tests/property/batches.hpp"

#include <algorithm>
#include <cstdio>

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
  Tally tally{.next = seed};
  while (tally.programs < wanted && tally.failed < enough) {
    int channel[2];
    if (pipe(channel) != 0) return tally;
    const std::uint64_t until = std::min(wanted, tally.programs + kBatch);
    const int code = in_child([&] {
      const auto report = [&] {
        return write(channel[1], &tally, sizeof tally) == sizeof tally;
      };
      for (; tally.programs < until && tally.failed < enough; ++tally.next) {
        if (!report()) return 1;
        one(&tally);
      }
      return report() ? 0 : 1;
    });
    close(channel[1]);
    Tally last = tally;
    while (read(channel[0], &last, sizeof last) == sizeof last) {
    }
    close(channel[0]);
    tally = last;
    if (code == 0) continue;
    ++tally.failed;
    ++tally.programs;
    crashed(tally.next++, "child ended with " + std::to_string(code));
  }
  return tally;
}

}  // namespace custash::property
