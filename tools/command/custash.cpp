// SPDX-License-Identifier: MIT
// The command `custash`: starts a program with the library preloaded, and explains the options.
// Reads its command line and environment, writes only the requested output to standard output.
#include "tools/command/launch.hpp"
#include "tools/command_line.hpp"
#include "tools/conf.hpp"
#include "tools/main.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

// Becomes custash-replay, which reads the same words again.
int start_beside(const char* name, const Words& words) {
  Words program{custash::beside(name)};
  if (program.front().empty())
    throw std::runtime_error(std::string(name) +
                             " is not next to this command; tools/build makes it");
  program.insert(program.end(), words.begin() + 1, words.end());
  return custash::start(program);
}

custash::HelpTexts help_texts() {
  const std::string exit_codes = custash::snapshot::kExitHelp;
  return {.compare = custash::compare::kHelp,
          .doctor = custash::doctor::kHelp,
          .replay = custash::replay::kHelp,
          .top = custash::live::kTopHelp,
          .stat = custash::live::kStatHelp,
          .trim = custash::live::kTrimHelp,
          .sleep = custash::live::kSleepHelp,
          .wake = custash::live::kWakeHelp,
          .serve = custash::live::kServeHelp,
          .report = custash::snapshot::kReportHelp + exit_codes,
          .diff = custash::snapshot::kDiffHelp + exit_codes,
          .leaks = custash::snapshot::kLeaksHelp + exit_codes,
          .snapshot = custash::snapshot::kSnapshotHelp + exit_codes};
}

int dispatch(const Words& words) {
  custash::CommandLine line(words, help_texts());
  for (Words* const program : {&line.run.program, &line.compare.program, &line.doctor.program})
    custash::add_python(program);
  const std::string& command = line.command;
  if (command.empty()) return 0;
  if (command == "run") return custash::run_command(line.run);
  if (command == "compare") return custash::compare::run_command(line.compare);
  if (command == "doctor") return custash::doctor::run_command(line.doctor);
  if (command == "replay") return start_beside("custash-replay", words);
  if (const auto code = custash::live::run_command(command, line.live)) return *code;
  if (const auto code = custash::snapshot::run_command(command, line.snapshot)) return *code;
  if (command == "options") std::fputs(custash::options_page().c_str(), stdout);
  if (command == "completion")
    std::fputs(custash::completion(line.description, line.shell).c_str(), stdout);
  if (command == "man") std::fputs(custash::man_page(line.description).c_str(), stdout);
  if (command == "version") std::puts("custash " CUSTASH_VERSION);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return custash::run_main(argc, argv, dispatch);
}
