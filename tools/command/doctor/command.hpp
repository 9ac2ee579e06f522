// SPDX-License-Identifier: MIT
// The subcommand `custash doctor`: its options, and what it prints.
#pragma once

#include <string>
#include <vector>

namespace custash::doctor {

struct CommandOptions {
  bool json = false;
  std::string library;
  std::vector<std::string> program;
  int process = 0;
};

extern const char* const kHelp;  // below the options in --help

// The exit code: 0, 1 where there is a problem, or the launcher's codes.
int run_command(const CommandOptions& options);

}  // namespace custash::doctor
