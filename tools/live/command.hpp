// SPDX-License-Identifier: MIT
// The subcommands that look at running processes: top, stat, trim.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace custash::live {

struct CommandOptions {
  bool json = false;
  bool prometheus = false;
  bool once = false;
  double delay = 1;
  int process = 0;
  int device = -1;
  double patience = 10;  // seconds: a process may be just ending a context
  std::string bytes;
};

struct Commands {
  CLI::App* top = nullptr;
  CLI::App* stat = nullptr;
  CLI::App* trim = nullptr;
};

Commands add_commands(CLI::App& app, CommandOptions* options);

// The exit code, of whichever was given; nothing where none was.
std::optional<int> run_command(const Commands& commands, const CommandOptions& options);

}  // namespace custash::live
