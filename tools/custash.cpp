// SPDX-License-Identifier: MIT
// The command `custash`: starts a program with the library preloaded, and explains the options.
// Reads its command line and environment, writes nothing to standard output but what was asked
// for.
#include "tools/command_line.hpp"
#include "tools/launch.hpp"
#include "tools/options_page.hpp"
#include "tools/output_file.hpp"
#include "tools/record.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using Words = std::vector<std::string>;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return custash::kExitCustash;
}

// Where an option's file is to be. The program may go to another folder.
std::string file_of(const char* option, custash::Output output) {
  if (output.path != "-") output.path = std::filesystem::absolute(output.path);
  std::string path = custash::require_file(output);
  if (path.find(',') == std::string::npos) return path;
  throw std::runtime_error(std::string(option) + " takes a path without commas");
}

// An older snapshot of that name goes, or the new one would get another name.
std::string history_conf(const custash::RunOptions& options, const std::string& given) {
  const custash::output::Kind kind = custash::snapshot::kind_of(options.history);
  const std::string path = file_of("--record-history", {options.history, kind, options.force});
  std::filesystem::remove(path);
  // What --conf says of the history's length comes last and wins.
  const bool chosen = given.find("history:") != std::string::npos;
  return (given.empty() ? "" : ",") + std::string(chosen ? "" : "history:200000,") +
         "snapshot:" + path;
}

int run(const custash::RunOptions& options) {
  if (options.program.empty()) {
    return fail("no program given (custash run [OPTIONS] -- PROGRAM [ARGUMENTS]; see --help)");
  }
  Words tried;
  const std::string library = custash::find_library(options.library, &tried);
  if (library.empty()) {
    std::string message = "libcustash.so not found; looked for";
    for (const std::string& place : tried)
      message += "\n  " + place;
    return fail(message + "\nbuild it (tools/build), or name it with --lib PATH");
  }
  if (library.find_first_of(": ") != std::string::npos) {
    return fail("LD_PRELOAD cannot hold a path with a space or a colon: " + library);
  }
  const std::string& name = options.program.front();
  const std::string path = custash::find_program(name);
  if (path.empty()) {
    std::fprintf(stderr, "custash: %s: not found on PATH\n", name.c_str());
    return custash::kExitNotFound;
  }
  if (const std::string why = custash::why_not_preloadable(path); !why.empty()) {
    std::fprintf(stderr,
                 "custash: warning: %s will run without custash: %s\n",
                 name.c_str(),
                 why.c_str());
  }
  const std::string preload = custash::compose_preload(library, environment("LD_PRELOAD"));
  std::string given = options.conf;
  std::string recording;
  std::string place;
  if (!options.record.empty()) {
    recording =
        file_of("--record", {options.record, custash::output::Kind::Recording, options.force});
    place = custash::recording_place(recording);
    given += (given.empty() ? "record:" : ",record:") + place;
  }
  if (!options.history.empty()) given += history_conf(options, given);
  if (options.leaks) given += given.empty() ? "leaks:true" : ",leaks:true";
  const std::string conf =
      custash::compose_conf(environment("CUSTASH_CONF"), given, options.summary);
  if (setenv("LD_PRELOAD", preload.c_str(), 1) != 0 ||
      (!conf.empty() && setenv("CUSTASH_CONF", conf.c_str(), 1) != 0)) {
    return fail("the environment cannot be changed");
  }
  return recording.empty() ? custash::start(options.program)
                           : custash::run_recorded(
                                 options.program, place, recording, options.force);
}

int dispatch(int argc, char** argv) {
  const custash::CommandLine line(Words(argv + 1, argv + argc));
  const std::string& command = line.command;
  if (command.empty()) return line.exit_code;
  if (command == "run") return run(line.run);
  if (command == "bandwidth") return custash::bandwidth::run_command(line.bandwidth);
  if (command == "doctor") return custash::doctor::run_command(line.doctor);
  if (command == "replay") return custash::replay::run_command(line.replay);
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
  try {
    return dispatch(argc, argv);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
