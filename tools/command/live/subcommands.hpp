// SPDX-License-Identifier: MIT
// The subcommands for running programs that have files of their own.
#pragma once

#include "tools/command/live/command.hpp"

#include <string>

namespace custash::live {

// `custash serve`: the numbers of all processes for Prometheus, over HTTP on the loopback
// address or in a file for node_exporter.
inline constexpr int kUsualPort = 9838;

struct ServeOptions {
  int port = -1;         // -1: kUsualPort, or none where a file is written
  std::string textfile;  // empty: none
  double interval = 15;  // seconds between two files
  bool once = false;
  bool force = false;  // replace a file that custash did not write
};

// The exit code.
int run_serve(const ServeOptions& options);

// `custash top`: looks, prints, waits, until q is pressed, standard output is gone, or once.
struct TopOptions {
  bool once = false;
  bool json = false;
  double delay = 1;  // seconds
  std::string sort;  // a column's word; empty: the usual one
};

// The exit code.
int run_top(const TopOptions& options);

// Sleep, wake, and trim --deep: they ask all processes at once.
// The exit code. `command`: "sleep", "wake" or "deep_trim".
int run_sleep(std::string_view command, const CommandOptions& options);

}  // namespace custash::live
