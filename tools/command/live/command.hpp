// SPDX-License-Identifier: MIT
// The subcommands that look at running processes: top, stat, trim, sleep, wake,
// serve.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace custash::live {

struct CommandOptions {
  bool json = false;
  bool prometheus = false;
  bool once = false;
  double delay = 1;
  std::string sort;  // a column of top
  int process = 0;
  std::vector<int> processes;
  bool all = false;
  int device = -1;
  double patience = 10;  // seconds: a process may be just ending a context
  std::string bytes;
  bool deep = false;
  // serve
  int port = -1;
  std::string textfile;
  double interval = 15;
  bool force = false;
};

// Below the options in --help.
extern const char* const kTopHelp;
extern const char* const kStatHelp;
extern const char* const kTrimHelp;
extern const char* const kSleepHelp;
extern const char* const kWakeHelp;
extern const char* const kServeHelp;

// The exit code; nothing where `command` is none of these.
std::optional<int> run_command(std::string_view command, const CommandOptions& options);

}  // namespace custash::live
