// SPDX-License-Identifier: MIT
#include "tools/command/run/supervise.hpp"

#include "tools/command/launch.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace custash::run {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

void nap() {
  constexpr timespec kNap{0, 20'000'000};
  nanosleep(&kNap, nullptr);
}

// A signal from the terminal, or to the whole group, reaches the program without us. What the
// program itself sends to its group is no message to it.
void pass_on(const siginfo_t& info, pid_t child, Witness* witness) {
  const bool same_group = getpgid(child) == getpgrp();
  if (info.si_code > 0 && same_group) return;  // by the kernel
  if (info.si_pid == child || (same_group && witness->saw(info.si_signo))) return;
  kill(child, info.si_signo);
}

// Whether a shell waits for this job at its terminal.
bool in_foreground() {
  const int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
  const bool is_front = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
  if (terminal >= 0) close(terminal);
  return is_front;
}

// A program that suspends itself alone suspends its job: the shell waits for this process.
void suspend_too(pid_t child) {
  nap();
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child), &info, WNOHANG | WCONTINUED) == 0 &&
      info.si_pid == child)
    return;  // the whole group was suspended, and goes on
  raise(SIGSTOP);
  kill(child, SIGCONT);
}

// False while the child lives.
bool look_at(pid_t child, int* status) {
  const pid_t changed = waitpid(child, status, WNOHANG | WUNTRACED);
  if (changed < 0 && errno != EINTR)
    throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
  if (changed != child) return false;
  if (WIFSTOPPED(*status) && (WSTOPSIG(*status) == SIGTSTP || in_foreground()))
    suspend_too(child);
  return !WIFSTOPPED(*status) && !WIFCONTINUED(*status);
}

}  // namespace

// Signals are blocked and waited for, never handled: the child inherits what is ignored.
Ended run_and_wait(const std::vector<std::string>& program,
                   int more,
                   const std::function<void()>& at_news) {
  sigset_t ours;
  sigset_t before;
  sigemptyset(&ours);
  for (const int signal : kPassedOn)
    sigaddset(&ours, signal);
  if (more != 0) sigaddset(&ours, more);
  sigaddset(&ours, SIGCHLD);
  sigaddset(&ours, SIGIO);
  sigprocmask(SIG_BLOCK, &ours, &before);

  struct sigaction usual {};

  struct sigaction children {};

  usual.sa_handler = SIG_DFL;  // if children are ignored, no process can wait for them
  sigaction(SIGCHLD, &usual, &children);
  Witness witness;
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    sigaction(SIGCHLD, &children, nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    // A signal that kills the command is meant for the program.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(kExitCustash);
    _exit(start(program));
  }
  Ended ended{child, 0};
  while (!look_at(child, &ended.status)) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&ours, &info);
    if (signal == SIGIO && info.si_code > 0)  // by the kernel
      at_news();
    else if (signal > 0 && signal != SIGCHLD)
      pass_on(info, child, &witness);
  }
  // What came until now was for the program. A later signal is for the report (Naming).
  constexpr timespec kNow{0, 0};
  while (sigtimedwait(&ours, nullptr, &kNow) > 0) {
  }
  return ended;
}

// By a table: libc has these names from glibc 2.32 on.
std::string signal_name(int signal) {
  static constexpr std::array kNames = {
      "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
      "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
      "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
      "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};
  static_assert(kNames.size() == SIGSYS);
  if (signal < 1 || signal > SIGSYS) return "signal " + std::to_string(signal);
  return std::string("SIG") + kNames[static_cast<std::size_t>(signal) - 1];
}

bool has_started(const Ended& ended) {
  return !WIFEXITED(ended.status) || (WEXITSTATUS(ended.status) != kExitNotFound &&
                                      WEXITSTATUS(ended.status) != kExitNotRunnable);
}

int finish_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  constexpr rlimit kNone{0, 0};
  setrlimit(RLIMIT_CORE, &kNone);  // the program has left its core
  prctl(PR_SET_DUMPABLE, 0);       // also where cores go to a pipe
  std::signal(signal, SIG_DFL);
  sigset_t this_one;
  sigemptyset(&this_one);
  sigaddset(&this_one, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &this_one, nullptr);
  constexpr int kOfSignal = 128;
  return kOfSignal + signal;
}

}  // namespace custash::run
