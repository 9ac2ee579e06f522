// SPDX-License-Identifier: MIT
// Action: another `custash` command, run beside the screen of `custash top`. The screen then
// says what a person would have read of it. One at a time.
#pragma once

#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

namespace custash::live {

class Action {
 public:
  Action() = default;
  ~Action();
  Action(const Action&) = delete;
  Action& operator=(const Action&) = delete;

  // `words`: of the command, such as {"trim", "4711"}. It has the signals of `mask` blocked.
  void start(const std::vector<std::string>& words, const sigset_t& mask);

  [[nodiscard]] bool running() const { return child_ > 0; }

  // Readable when there is something to collect; -1: nothing runs.
  [[nodiscard]] int fd() const { return out_; }

  // True: it has ended, and result() says how.
  bool collect();

  // One line: the command, and the last that it said.
  [[nodiscard]] const std::string& result() const { return result_; }

 private:
  std::string title_;
  std::string said_;
  std::string result_;
  pid_t child_ = 0;
  int out_ = -1;
};

}  // namespace custash::live
