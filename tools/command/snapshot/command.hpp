// SPDX-License-Identifier: MIT
// The subcommands over snapshots: report, diff, leaks, snapshot.
#pragma once

#include "interpose/process/output_kind.hpp"
#include "interpose/process/snapshot_form.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace custash::snapshot {

struct CommandOptions {
  std::string file;   // or a process's number
  std::string other;  // diff's second file
  std::string output;
  bool json = false;
  bool history = false;
  bool force = false;  // replace a file that is not custash's
  unsigned most = 20;  // call sites
  double patience = 10;
};

// By the name's ending; a page for "-". Throws BadSnapshot for other endings.
Form form_of(const std::string& path);

// What a file of that ending holds. Throws BadSnapshot for others.
output::Kind kind_of(const std::string& path);

// Below the options in --help. kExitHelp follows each of the others.
extern const char* const kReportHelp;
extern const char* const kDiffHelp;
extern const char* const kLeaksHelp;
extern const char* const kSnapshotHelp;
extern const char* const kExitHelp;

// The exit code; nothing where `command` is none of these.
std::optional<int> run_command(std::string_view command, const CommandOptions& options);

}  // namespace custash::snapshot
