// SPDX-License-Identifier: MIT
#include "tools/command/compare/signals.hpp"

#include <csignal>
#include <initializer_list>

#include <time.h>
#include <unistd.h>

namespace custash::compare {
namespace {

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile std::sig_atomic_t g_came = 0;  // while custash reads

void note(int signal) {
  constexpr int kOfSignal = 128;
  if (g_came != 0) _exit(kOfSignal + signal);
  g_came = signal;
}

bool is_ignored(int signal) {
  struct sigaction action {};

  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

sigset_t held_set() {
  sigset_t set;
  sigemptyset(&set);
  // Ctrl-Z would stop the clock's owner and not the program.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCHLD})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

bool is_end(int signal) {
  for (const int each : kEnds)
    if (signal == each) return true;
  return false;
}

HeldSignals::HeldSignals() {
  std::signal(SIGCHLD, SIG_DFL);  // if children are ignored, no process can wait for them
  const sigset_t set = held_set();
  sigprocmask(SIG_BLOCK, &set, &before_);
}

HeldSignals::~HeldSignals() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int HeldSignals::take() const {
  const sigset_t set = held_set();
  const timespec now{};
  int found = 0;
  for (int signal = 0; (signal = sigtimedwait(&set, nullptr, &now)) > 0;)
    if (is_end(signal)) found = signal;
  return found;
}

Reading::Reading() {
  struct sigaction action {};

  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : kEnds) {
    if (is_ignored(signal)) continue;
    sigaction(signal, &action, nullptr);
    sigaddset(&ends, signal);
  }
  sigprocmask(SIG_UNBLOCK, &ends, &before_);
}

Reading::~Reading() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  for (const int signal : kEnds)
    if (!is_ignored(signal)) std::signal(signal, SIG_DFL);
  if (g_came != 0) (void)raise(g_came);  // held back now, until take()
  g_came = 0;
}

void check_signals() {
  if (g_came != 0) throw Interrupted();
}

}  // namespace custash::compare
