// SPDX-License-Identifier: MIT
#include "tools/command/run/supervise.hpp"

#include <cerrno>
#include <csignal>
#include <initializer_list>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace custash::run {
namespace {

long long milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

[[noreturn]] void watch(int tell, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    close(file);
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGCONT);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  while (getppid() == parent) {
    const int signal = sigwaitinfo(&all, nullptr);
    const auto byte = static_cast<char>(signal);
    if (signal > 0 && write(tell, &byte, 1) != 1) break;
  }
  _exit(0);
}

}  // namespace

Witness::Witness() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) watch(ends[1], parent);
  close(ends[1]);
  told_ = ends[0];
}

Witness::~Witness() {
  if (told_ >= 0) close(told_);
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A sender may signal both the group and this process: within a moment that is one signal.
bool Witness::saw(int signal) {
  constexpr int kPatience = 20;  // milliseconds
  constexpr long long kMoment = 200;
  const long long now = milliseconds();
  pollfd from{told_, POLLIN, 0};
  const bool recently = last_[signal] != 0 && now - last_[signal] < kMoment;
  while (told_ >= 0 && poll(&from, 1, recently ? 0 : kPatience) == 1) {
    char byte = 0;
    if (read(told_, &byte, 1) != 1) break;
    last_[byte & 63] = now;
    if (byte == signal) return true;
  }
  return recently;
}

}  // namespace custash::run
