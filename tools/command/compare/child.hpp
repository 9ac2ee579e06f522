// SPDX-License-Identifier: MIT
// Starts one run of the program and waits for it. The program leads a process group of its own,
// so a time limit or Ctrl-C ends all of it. Processes that have left the group are killed then.
#pragma once

#include "tools/command/compare/sampler.hpp"
#include "tools/command/compare/signals.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace custash::compare {

struct Start {
  std::vector<std::string> program;
  std::vector<std::pair<std::string, std::string>> environment;  // an empty value: not set
  int output = -1;
  int errors = -1;
  double timeout = 0;  // seconds; 0: none
};

struct Ended {
  Run run;
  bool timed_out = false;
  bool wants_terminal = false;  // it was stopped since it used the terminal
  bool left_running = false;    // a process that it started has not ended
  int interrupted = 0;          // the signal that came
};

Ended run_child(const Start& start, const HeldSignals& signals, Sampler& sampler);

}  // namespace custash::compare
