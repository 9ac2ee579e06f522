// SPDX-License-Identifier: MIT
#include "tools/command/doctor/command.hpp"

#include "interpose/process/printable.hpp"
#include "tools/command/doctor/examine.hpp"
#include "tools/command/launch.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace custash::doctor {

const char* const kHelp =
    "Examples:\n"
    "  custash doctor\n"
    "  custash doctor -- ./train\n"
    "  custash doctor --json -- python3\n"
    "  custash doctor --pid 4711              with all libraries that it has opened by now\n"
    "\n"
    "PROGRAM is not run: the dynamic loader lists its libraries. docs/troubleshooting.md\n"
    "explains each finding.\n"
    "\n"
    "Exit status: 0; 1 if a finding is a problem; 125 for a wrong command line, 126 if\n"
    "PROGRAM cannot be run, 127 if it is not found.\n";

namespace {

void examine_library(const std::string& given, Findings* findings) {
  std::vector<std::string> tried;
  const std::string library = find_library(given, &tried);
  if (library.empty()) {
    std::string places;
    for (const std::string& place : tried)
      places += " " + place;
    findings->push_back({Level::Problem,
                         "libcustash.so",
                         "not found; looked for" + places,
                         "Build it (tools/build), or name it with --lib PATH."});
  } else if (library.find_first_of(": ") != std::string::npos) {
    findings->push_back({Level::Problem,
                         "libcustash.so",
                         "LD_PRELOAD cannot hold a space or a colon: " + library,
                         "Move it to a path without them."});
  } else {
    findings->push_back({Level::Ok, "libcustash.so", library, ""});
    if (check_library_of(library).empty())
      findings->push_back(
          {Level::Warning,
           "libcustash-check.so",
           "not found beside libcustash.so",
           "Install it there: without it, custash neither checks, reports nor sleeps."});
  }
}

int fail(int code, const std::string& message) {
  std::fputs(("custash: " + printable(message) + "\n").c_str(), stderr);
  return code;
}

// On a terminal, unless the user has said no (no-color.org) or the terminal has none.
bool colours() {
  const char* const no = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0') &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

}  // namespace

int run_command(const CommandOptions& options) {
  if (options.process != 0 && !options.program.empty())
    return fail(kExitCustash, "doctor inspects a process (--pid) or a program, not both");
  Findings findings;
  examine_library(options.library, &findings);
  examine_environment(&findings);
  examine_system(&findings);
  examine_driver(&findings);
  if (!options.program.empty()) {
    const std::string& program = options.program.front();
    std::string why;
    if (const int code = examine_program(program, &why, &findings); code != 0)
      return fail(code, program + ": " + why);
  }
  if (options.process != 0) examine_process(options.process, &findings);
  const std::string text = options.json ? as_json(findings) : as_text(findings, colours());
  std::fputs(text.c_str(), stdout);
  return any_problem(findings) ? 1 : 0;
}

}  // namespace custash::doctor
