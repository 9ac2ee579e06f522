// SPDX-License-Identifier: MIT
// The subcommand `run`: starts a program with the library preloaded. With a report option it
// waits for the program and reports; without one it becomes the program.
#pragma once

#include <string>
#include <vector>

namespace custash {

struct RunOptions {
  bool summary = false;
  std::string conf;
  bool print_conf = false;  // print the options in force, start nothing
  std::string library;
  std::string record;
  std::string history;
  bool leaks = false;
  bool check_memory = false;   // guards around all blocks; findings on standard error
  bool check_streams = false;  // the order of streams; the same
  std::string json;            // of these, the file; empty: none
  std::string suppressions;    // call sites that these and `leaks` leave out
  int error_code = 0;          // the status where these or `leaks` found something
  bool force = false;          // replace files that custash did not write
  std::vector<std::string> program;
};

int run_command(const RunOptions& options);

}  // namespace custash
