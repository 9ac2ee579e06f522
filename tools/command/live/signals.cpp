// SPDX-License-Identifier: MIT
#include "tools/command/live/signals.hpp"

#include <array>
#include <initializer_list>

#include <sys/signalfd.h>
#include <unistd.h>

namespace custash::live {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : signals)
    sigaddset(&set, each);
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t all = set_of({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH});
  sigprocmask(SIG_BLOCK, &all, &before_);
  fd_ = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

Signals::~Signals() {
  if (fd_ >= 0) close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::take() const {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void Signals::stop_here() {
  const sigset_t stop = set_of({SIGTSTP});
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // it takes effect here
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

bool ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace custash::live
