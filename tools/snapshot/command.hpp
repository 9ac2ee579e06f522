// SPDX-License-Identifier: MIT
// The subcommands over snapshots: report, diff, leaks, snapshot.
#pragma once

#include "interpose/output_kind.hpp"

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace custash::snapshot {

struct CommandOptions {
  std::string file;   // or a process's number
  std::string other;  // diff's second file
  std::string output;
  bool json = false;
  bool history = false;
  bool force = false;   // replace a file that is not custash's
  unsigned most = 20;  // call sites
  double patience = 10;
};

struct Commands {
  CLI::App* report = nullptr;
  CLI::App* diff = nullptr;
  CLI::App* leaks = nullptr;
  CLI::App* snapshot = nullptr;
};

// What a name's ending asks for, as the service's verb has it. Throws BadSnapshot for others.
std::string form_of(const std::string& path);

// What a file of that ending holds. Throws BadSnapshot for others.
output::Kind kind_of(const std::string& path);

Commands add_commands(CLI::App& app, CommandOptions* options);

// The exit code, of whichever was given; nothing where none was.
std::optional<int> run_command(const Commands& commands, const CommandOptions& options);

}  // namespace custash::snapshot
