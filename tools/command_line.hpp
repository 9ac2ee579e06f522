// SPDX-License-Identifier: MIT
// The command line of custash: what each subcommand takes, and what was given. The one place
// that knows CLI11, which takes seconds to compile. No state.
#pragma once

#include "tools/command/compare/command.hpp"
#include "tools/command/describe.hpp"
#include "tools/command/doctor/command.hpp"
#include "tools/command/live/command.hpp"
#include "tools/command/run/command.hpp"
#include "tools/command/snapshot/command.hpp"
#include "tools/replay/command.hpp"

#include <string>
#include <vector>

namespace custash {

// Texts below the options in the --help of each command. A program gives those of the commands
// that it runs.
struct HelpTexts {
  std::string compare;
  std::string doctor;
  std::string replay;
  std::string top;
  std::string stat;
  std::string trim;
  std::string sleep;
  std::string wake;
  std::string serve;
  std::string report;
  std::string diff;
  std::string leaks;
  std::string snapshot;
};

struct CommandLine {
  // Reads the words behind "custash". Prints the help that they ask for; throws, with a message
  // for people, where they cannot be used.
  CommandLine(std::vector<std::string> words, const HelpTexts& help);

  std::string command;  // "run", "top", …; empty: all is said
  RunOptions run;
  compare::CommandOptions compare;
  doctor::CommandOptions doctor;
  live::CommandOptions live;
  replay::CommandOptions replay;
  snapshot::CommandOptions snapshot;
  std::string shell;  // of completion
  Description description;
};

}  // namespace custash
