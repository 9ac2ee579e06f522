// SPDX-License-Identifier: MIT
// The command `custash`: starts a program with the library preloaded, and explains the options.
// Reads its command line and environment, writes nothing to standard output but what was asked
// for.
#include "tools/command_line.hpp"
#include "tools/conf.hpp"
#include "tools/launch.hpp"
#include "tools/options_page.hpp"
#include "tools/record.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// An older snapshot of that name goes, or the new one would get another name.
std::string history_conf(const std::string& file, const std::string& given) {
  const std::string path =
      std::filesystem::absolute(file);  // the program may go to another folder
  if (path.find(',') != std::string::npos)
    throw std::runtime_error("--record-history takes a path without commas");
  (void)custash::snapshot::form_of(path);  // throws: no other file is removed by mistake
  custash::require_place(path);
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
  if (!options.record.empty()) {
    // The program may go to another folder.
    recording = std::filesystem::absolute(options.record);
    if (recording.find(',') != std::string::npos)
      return fail("--record takes a path without commas");
    custash::require_place(recording);
    custash::require_no_other_file(recording);
    given += (given.empty() ? "record:" : ",record:") + custash::recording_place(recording);
  }
  if (!options.history.empty()) given += history_conf(options.history, given);
  if (options.leaks) given += given.empty() ? "leaks:true" : ",leaks:true";
  const std::string conf =
      custash::compose_conf(environment("CUSTASH_CONF"), given, options.summary);
  if (setenv("LD_PRELOAD", preload.c_str(), 1) != 0 ||
      (!conf.empty() && setenv("CUSTASH_CONF", conf.c_str(), 1) != 0)) {
    return fail("the environment cannot be changed");
  }
  return recording.empty() ? custash::start(options.program)
                           : custash::run_recorded(options.program, recording);
}

// As run() would start a program.
std::string in_force(const custash::RunOptions& options) {
  std::string given = options.conf;
  if (!options.record.empty()) given += ",record:" + options.record;
  if (!options.history.empty())
    given = "history:200000," + given + ",snapshot:" + options.history;
  if (options.leaks) given += ",leaks:true";
  if (options.summary) given += ",summary:true";
  const std::string present = environment("CUSTASH_CONF");
  for (const std::string& complaint : custash::parse_config(present).complaints)
    std::fprintf(stderr, "%s\n", complaint.c_str());
  return custash::options_in_force(present, given);
}

int dispatch(int argc, char** argv) {
  const custash::CommandLine line(Words(argv + 1, argv + argc));
  const std::string& command = line.command;
  if (command.empty()) return 0;
  if (command == "run") {
    (void)custash::require_conf("--conf", line.run.conf);
    if (!line.run.print_conf) return run(line.run);
    std::fputs(in_force(line.run).c_str(), stdout);
  }
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
  int code = 0;
  try {
    code = dispatch(argc, argv);
  } catch (const std::exception& error) {
    code = fail(error.what());
  }
  // What was printed may still be on its way, to a full disk for one.
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::fprintf(stderr, "custash: standard output cannot be written%s\n", why.c_str());
  return code == 0 ? 1 : code;
}
