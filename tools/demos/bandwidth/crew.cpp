// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/crew.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::bandwidth {

struct Member::Shared {
  unsigned count;
  std::atomic<unsigned> arrived;
  std::atomic<bool> failed;
  std::atomic<bool> has_message;  // the first to set it writes
  char message[512];
};

static_assert(std::atomic<unsigned>::is_always_lock_free, "it works between processes");

void Member::start_together() {
  ++round_;
  ++shared_->arrived;
  while (shared_->arrived < round_ * shared_->count) {
    if (shared_->failed) _exit(EXIT_FAILURE);
    sched_yield();
  }
}

namespace {

void say(Member::Shared& shared, const char* what) {
  if (!shared.has_message.exchange(true))
    std::strncpy(shared.message, what, sizeof shared.message - 1);
  shared.failed = true;
}

[[noreturn]] void become_member(Member::Shared& shared,
                                unsigned number,
                                pid_t parent,
                                const std::function<void(Member&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it had ended before we asked
  try {
    Member member(shared, number);
    work(member);
  } catch (const std::exception& error) {
    say(shared, error.what());
    _exit(EXIT_FAILURE);
  }
  // Not _exit: what a preloaded library says at the end is wanted.
  std::exit(EXIT_SUCCESS);
}

std::string description(int status) {
  if (WIFSIGNALED(status))
    return std::string("a measuring process was ended by signal ") +
           std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "a measuring process ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void run_crew(unsigned count, const std::function<void(Member&)>& work) {
  const SharedArray<Member::Shared> memory(1);
  Member::Shared& shared = memory.all().front();
  shared.count = count;
  std::fflush(nullptr);  // else children print it again
  const pid_t parent = getpid();
  unsigned running = 0;
  for (; running < count; ++running) {
    const pid_t pid = fork();
    if (pid == 0) become_member(shared, running, parent, work);
    if (pid < 0) {
      say(shared, std::strerror(errno));
      break;
    }
  }
  for (; running > 0; --running) {
    int status = 0;
    while (waitpid(-1, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) say(shared, description(status).c_str());
  }
  if (shared.failed) throw std::runtime_error(shared.message);
}

}  // namespace custash::bandwidth
