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

#include <sys/types.h>

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

// ---- The processes that a program has started, by /proc: kin.cpp. Once custash is a
// subreaper, processes whose parent has ended become its children.

// Whether a process is `ancestor`, one of its group, or one that it has started.
bool descends_from(pid_t process, pid_t ancestor);

// Of this process; reaps those that have ended.
std::vector<pid_t> children();

// Kills and reaps the children that are not in `before`, and their children in turn.
void kill_children(const std::vector<pid_t>& before);

// Whether a child that is not in `before` still runs.
bool has_children(const std::vector<pid_t>& before);

// Reaps children that have ended, but for `keep`.
void reap(pid_t keep);

}  // namespace custash::compare
