// SPDX-License-Identifier: MIT
#include "tools/command/compare/child.hpp"

#include "tools/command/launch.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace custash::compare {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGrace = 5;  // seconds between asking the program to end and killing it

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A file to read nothing from: an empty pipe where there is no /dev.
int nothing() {
  const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int ends[2];
  if (none >= 0 || pipe2(ends, O_CLOEXEC) != 0) return none;
  close(ends[1]);
  return ends[0];
}

[[noreturn]] void become(const Start& start, const HeldSignals& signals, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitCustash);
  setpgid(0, 0);
  const int none = nothing();
  if (none < 0 || dup2(none, STDIN_FILENO) < 0 || dup2(start.output, STDOUT_FILENO) < 0 ||
      dup2(start.errors, STDERR_FILENO) < 0)
    _exit(kExitCustash);
  for (const auto& [name, value] : start.environment) {
    const int code =
        value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    if (code != 0) _exit(kExitCustash);
  }
  sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
  _exit(custash::start(start.program));
}

// One run, from its start to its end.
class Wait {
 public:
  Wait(pid_t child, Clock::time_point began, double timeout)
      : child_(child), timeout_(timeout), began_(began) {}

  Ended all() {
    while (!ended()) {
      const int signal = next_signal();
      if (signal == SIGCHLD) reap(child_);  // what the program leaves to custash
      if (is_end(signal)) {
        end_it(out_.interrupted == 0 ? signal : SIGKILL);
        out_.interrupted = signal;
      }
      if (asked_ && since(*asked_) > kGrace) end_it(SIGKILL);
      if (!asked_ && timeout_ > 0 && since(began_) > timeout_) {
        out_.timed_out = true;
        end_it(SIGTERM);
      }
    }
    return out_;
  }

 private:
  bool ended() {
    rusage usage{};
    const pid_t changed = wait4(child_, &out_.run.status, WNOHANG | WUNTRACED, &usage);
    if (changed < 0 && errno != EINTR)
      throw std::runtime_error(std::string("wait4: ") + std::strerror(errno));
    if (changed != child_) return false;
    if (WIFSTOPPED(out_.run.status)) {
      const int why = WSTOPSIG(out_.run.status);
      if (why == SIGTTIN || why == SIGTTOU) {
        out_.wants_terminal = true;
        end_it(SIGKILL);
      }
      return false;
    }
    out_.run.wall = since(began_);
    out_.run.user = seconds(usage.ru_utime);
    out_.run.system = seconds(usage.ru_stime);
    return true;
  }

  // 0 when it is time to look at the limits.
  [[nodiscard]] int next_signal() const {
    double left = asked_ ? kGrace - since(*asked_) : 3600;
    if (!asked_ && timeout_ > 0) left = timeout_ - since(began_);
    left = std::max(left, 0.0) + 0.001;
    const timespec nap{static_cast<time_t>(left),
                       static_cast<long>((left - std::floor(left)) * 1e9)};
    const sigset_t set = held_set();
    return std::max(sigtimedwait(&set, nullptr, &nap), 0);
  }

  void end_it(int signal) {
    for (const int each : {signal, SIGCONT}) {
      kill(-child_, each);
      if (getpgid(child_) != child_) kill(child_, each);  // it has left its group
    }
    if (!asked_) asked_ = Clock::now();
  }

  const pid_t child_;
  const double timeout_;
  const Clock::time_point began_;
  std::optional<Clock::time_point> asked_;  // to end
  Ended out_;
};

}  // namespace

Ended run_child(const Start& start, const HeldSignals& signals, Sampler& sampler) {
  const pid_t parent = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that processes whose parent has ended are found
  const std::vector<pid_t> before = children();
  const auto began = Clock::now();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child == 0) become(start, signals, parent);
  setpgid(child, child);  // whichever of the two comes first
  sampler.start(child);
  Ended ended = Wait(child, began, start.timeout).all();
  ended.run.memory = sampler.stop();
  if (ended.timed_out || ended.wants_terminal || ended.interrupted != 0)
    kill_children(before);
  else
    ended.left_running = has_children(before);
  return ended;
}

}  // namespace custash::compare
