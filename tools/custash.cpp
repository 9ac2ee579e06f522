// SPDX-License-Identifier: MIT
// The command `custash`: starts a program with the library preloaded, and explains the options.
// Reads its command line and environment, writes nothing to standard output but what was asked
// for.
#include "tools/bandwidth/command.hpp"
#include "tools/describe.hpp"
#include "tools/doctor/command.hpp"
#include "tools/launch.hpp"
#include "tools/live/command.hpp"
#include "tools/options_page.hpp"
#include "tools/output_file.hpp"
#include "tools/record.hpp"
#include "tools/replay/command.hpp"
#include "tools/snapshot/command.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

namespace {

using Words = std::vector<std::string>;

constexpr const char* kRunHelp =
    "Examples:\n"
    "  custash run -- ./train --epochs 3\n"
    "  custash run --summary -- python3 train.py\n"
    "  custash run --record app.trace.xz -- ./app\n"
    "  custash run --record-history report.html -- python3 train.py\n"
    "  custash run --conf \"backing:driver,log:info,log_file:custash.log\" -- ./app\n"
    "\n"
    "LD_PRELOAD is kept, with custash in front of it. CUSTASH_CONF is kept too; what --conf "
    "says\n"
    "comes after it and wins. Programs that PROGRAM starts are served as well. It needs "
    "neither\n"
    "root nor a rebuilt PROGRAM.\n"
    "\n"
    "Options for --conf and CUSTASH_CONF, as key:value,key:value:\n";

constexpr const char* kRunExitCodes =
    "\n"
    "Exit status: PROGRAM's own; 125 when custash itself fails (usage, library missing), 126 "
    "when\n"
    "PROGRAM cannot be run, 127 when it is not found.\n";

struct RunOptions {
  bool summary = false;
  std::string conf;
  std::string library;
  std::string record;
  std::string history;
  bool leaks = false;
  bool force = false;
  Words program;
};

// Ends our own words where the program's begin: at "--", or at the first word that is no
// option. CLI11 must not see the rest, or it would take PROGRAM's options and subcommand-like
// names for its own.
Words split_off_program(Words* ours) {
  constexpr std::size_t kFirst = 1;  // after "run" or "doctor"
  std::size_t end = kFirst;
  while (end < ours->size() && ours->at(end).rfind('-', 0) == 0 && ours->at(end) != "--") {
    const bool takes_next = ours->at(end) == "--conf" || ours->at(end) == "--lib" ||
                            ours->at(end) == "--record" ||
                            ours->at(end) == "--record-history" || ours->at(end) == "--pid";
    end += takes_next ? 2 : 1;
  }
  end = std::min(end, ours->size());
  const std::size_t skip = end < ours->size() && ours->at(end) == "--" ? 1 : 0;
  Words program(ours->begin() + static_cast<std::ptrdiff_t>(end + skip), ours->end());
  ours->resize(end);
  return program;
}

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
std::string history_conf(const RunOptions& options, const std::string& given) {
  const custash::output::Kind kind = custash::snapshot::kind_of(options.history);
  const std::string path = file_of("--record-history", {options.history, kind, options.force});
  std::filesystem::remove(path);
  // What --conf says of the history's length comes last and wins.
  const bool chosen = given.find("history:") != std::string::npos;
  return (given.empty() ? "" : ",") + std::string(chosen ? "" : "history:200000,") +
         "snapshot:" + path;
}

int run(const RunOptions& options) {
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
  Words words(argv + 1, argv + argc);
  RunOptions options;
  custash::bandwidth::CommandOptions bandwidth_options;
  custash::doctor::CommandOptions doctor_options;
  custash::live::CommandOptions live_options;
  custash::replay::CommandOptions replay_options;
  if (!words.empty() && words.front() == "run") options.program = split_off_program(&words);
  if (!words.empty() && words.front() == "doctor")
    doctor_options.program = split_off_program(&words);
  if (!words.empty() && words.front() == "replay")
    words = custash::replay::prepared(std::move(words));

  CLI::App app("custash: a drop-in caching allocator for CUDA", "custash");
  app.set_version_flag("--version", "custash " CUSTASH_VERSION);
  app.require_subcommand(1);
  CLI::App* const run_command =
      app.add_subcommand("run", "start a program with custash preloaded");
  run_command->add_flag(
      "--summary", options.summary, "print statistics to standard error at exit");
  run_command->add_option("--conf", options.conf, "options, key:value,key:value (see below)");
  run_command->add_option(
      "--lib", options.library, "libcustash.so, where it is not beside this command");
  run_command->add_option(
      "--record",
      options.record,
      "write down every allocation and free in this file, for custash replay; "
      ".xz packs it");
  run_command->add_option(
      "--record-history",
      options.history,
      "write a report of all memory by call site at exit: .html, or .json, .pickle (PyTorch's "
      "viewer), .trace.json (Perfetto)");
  run_command->add_flag("--leaks",
                        options.leaks,
                        "say on standard error at exit what is still allocated, by call site");
  // For the usage line only: split_off_program() has taken these words away.
  run_command->add_option(
      "program", options.program, "after --: what to start, and its arguments");
  run_command->footer(kRunHelp + custash::options_help() + kRunExitCodes);
  CLI::App* const bandwidth_command = custash::bandwidth::add_command(app, &bandwidth_options);
  CLI::App* const doctor_command = custash::doctor::add_command(app, &doctor_options);
  const custash::live::Commands live_commands = custash::live::add_commands(app, &live_options);
  custash::snapshot::CommandOptions snapshot_options;
  const auto snapshot_commands = custash::snapshot::add_commands(app, &snapshot_options);
  CLI::App* const replay_command = custash::replay::add_command(app, &replay_options);
  CLI::App* const options_command =
      app.add_subcommand("options", "print the options page (Markdown)");
  std::string shell;
  CLI::App* const completion_command =
      app.add_subcommand("completion", "print a completion script for a shell");
  completion_command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  CLI::App* const man_command = app.add_subcommand("man", "print the manual page");
  CLI::App* const version_command = app.add_subcommand("version", "print the version");

  const auto is_first_word = [&](const CLI::App* each) {
    return each->get_name() == words.front();
  };
  if (!words.empty() && words.front().rfind('-', 0) != 0 &&
      app.get_subcommands(is_first_word).empty())
    return fail(words.front() +
                ": no such command (custash --help lists them; custash run -- " +
                words.front() + " starts a program)");

  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : custash::kExitCustash;
  }
  if (*run_command) return run(options);
  if (*bandwidth_command) return custash::bandwidth::run_command(bandwidth_options);
  if (*doctor_command) return custash::doctor::run_command(doctor_options);
  if (const auto code = custash::live::run_command(live_commands, live_options)) return *code;
  if (const auto code = custash::snapshot::run_command(snapshot_commands, snapshot_options))
    return *code;
  if (*replay_command) return custash::replay::run_command(replay_options);
  if (*options_command) std::fputs(custash::options_page().c_str(), stdout);
  if (*completion_command) std::fputs(custash::completion(app, shell).c_str(), stdout);
  if (*man_command) std::fputs(custash::man_page(app).c_str(), stdout);
  if (*version_command) std::puts("custash " CUSTASH_VERSION);
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
