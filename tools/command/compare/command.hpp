// SPDX-License-Identifier: MIT
// The subcommand `compare`: runs a program without and with custash in turn, and says what
// custash changes.
#pragma once

#include <string>
#include <vector>

namespace custash::compare {

struct CommandOptions {
  unsigned rounds = 10;
  unsigned warmup = 1;
  double timeout = 0;  // seconds for one run; 0: none
  std::string conf;
  std::string against;  // the first side's options; empty: it runs without custash
  std::string library;
  std::vector<std::string> ignore;  // regular expressions: lines of the output that may differ
  std::string metric;               // a regular expression: a number in the output
  bool metric_higher = false;
  bool ignore_failure = false;
  std::string keep;                   // a folder for the output of each run
  std::vector<std::string> with_env;  // NAME=VALUE, set with custash only
  bool json = false;
  std::vector<std::string> exports;
  bool force = false;
  std::vector<std::string> program;
};

extern const char* const kHelp;  // below the options in --help

// The exit code: 0 where both ended alike and wrote the same, 1 where not or where a run
// failed, 128 + N after the signal N, or the launcher's codes.
int run_command(const CommandOptions& options);

}  // namespace custash::compare
