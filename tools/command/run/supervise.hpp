// SPDX-License-Identifier: MIT
// Runs a program as a child and waits for it. To the program and to its caller it looks as if
// there were no process in between: signals, terminal, status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace custash::run {

struct Ended {
  pid_t process = 0;
  int status = 0;  // as waitpid() has it
};

// From here on until finish_as() signals that end programs are held back and passed on, and so
// is `more` (0: none). `at_news`: called between them, at a SIGIO of the kernel.
Ended run_and_wait(const std::vector<std::string>& program,
                   int more,
                   const std::function<void()>& at_news);

// "SIGKILL".
std::string signal_name(int signal);

// False where the program was not found, or cannot be run.
bool has_started(const Ended& ended);

// The program's exit status; where a signal ended it, the same signal ends this process.
int finish_as(int status);

// Witness: a process of our group that only reports which signals it gets. What it gets was
// sent to the whole group, so the program has it already and must not get it a second time.
class Witness {
 public:
  Witness();   // signals are blocked by then; without one saw() is always false
  ~Witness();  // ends it
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // This signal came to the group just now, or will within some milliseconds.
  bool saw(int signal);

 private:
  pid_t process_ = -1;
  int told_ = -1;
  long long last_[65] = {};  // when each was seen
};

}  // namespace custash::run
