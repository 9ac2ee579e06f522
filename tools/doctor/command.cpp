// SPDX-License-Identifier: MIT
#include "tools/doctor/command.hpp"

#include "tools/doctor/findings.hpp"
#include "tools/doctor/machine.hpp"
#include "tools/doctor/program.hpp"
#include "tools/launch.hpp"

#include <cstdio>

namespace custash::doctor {

const char* const kHelp =
    "Examples:\n"
    "  custash doctor\n"
    "  custash doctor -- ./train\n"
    "  custash doctor --json -- python3\n"
    "  custash doctor --pid 4711              with all that it has opened by now\n"
    "\n"
    "PROGRAM is not run: the dynamic loader lists its libraries. docs/troubleshooting.md says\n"
    "more of each finding.\n"
    "\n"
    "Exit status: 0; 1 when a finding is a problem; 125 for a wrong command line, 127 when\n"
    "PROGRAM is not found.\n";

namespace {

void examine_library(const std::string& given, Findings* findings) {
  std::vector<std::string> tried;
  const std::string library = find_library(given, &tried);
  if (library.empty()) {
    findings->push_back({Level::Problem,
                         "libcustash.so",
                         "not found",
                         "Build it (tools/build), or name it with --lib PATH."});
  } else if (library.find_first_of(": ") != std::string::npos) {
    findings->push_back({Level::Problem,
                         "libcustash.so",
                         "LD_PRELOAD cannot hold a space or a colon: " + library,
                         "Move it to a path without them."});
  } else {
    findings->push_back({Level::Ok, "libcustash.so", library, ""});
  }
}

}  // namespace

int run_command(const CommandOptions& options) {
  Findings findings;
  examine_library(options.library, &findings);
  examine_environment(&findings);
  examine_system(&findings);
  examine_driver(&findings);
  if (!options.program.empty() && !examine_program(options.program.front(), &findings)) {
    std::fprintf(stderr, "custash: %s: not found on PATH\n", options.program.front().c_str());
    return kExitNotFound;
  }
  if (options.process != 0) (void)examine_process(options.process, &findings);
  std::fputs((options.json ? as_json(findings) : as_text(findings)).c_str(), stdout);
  return any_problem(findings) ? 1 : 0;
}

}  // namespace custash::doctor
