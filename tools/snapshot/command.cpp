// SPDX-License-Identifier: MIT
#include "tools/snapshot/command.hpp"

#include "tools/live/processes.hpp"
#include "tools/progress.hpp"
#include "tools/snapshot/forms.hpp"
#include "tools/snapshot/named.hpp"
#include "tools/snapshot/read.hpp"
#include "tools/snapshot/sites.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace custash::snapshot {
namespace {

constexpr const char* kExit =
    "\n"
    "Exit status: 0; 1 where a file or a process cannot be read or written, and why is said.\n";

constexpr const char* kReportHelp =
    "Examples:\n"
    "  custash run --record-history app.json -- ./app    makes a snapshot at exit\n"
    "  custash report app.json                           app.json.html, to open in a browser\n"
    "  custash report torch.pickle -o page.html          PyTorch's _dump_snapshot()\n"
    "\n"
    "The page holds everything: memory over time by call site, the segments, what the peak "
    "was\n"
    "made of, what is left. docs/history.md says how to read it. The file is only read: "
    "nothing\n"
    "that stands in a pickle is run.\n";

constexpr const char* kDiffHelp =
    "Examples:\n"
    "  custash snapshot 4711 -o before.json; sleep 60; custash snapshot 4711 -o after.json\n"
    "  custash diff before.json after.json          what has grown, the most first\n"
    "  custash diff before.json 4711                from then to now, of a running process\n"
    "  custash diff --json before.json after.json   all of it\n";

constexpr const char* kLeaksHelp =
    "Examples:\n"
    "  custash leaks app.json       what was left, the most first\n"
    "  custash leaks 4711           of a running process, whose history is on\n"
    "  custash run --leaks -- ./app at its exit\n"
    "\n"
    "\"growing\" stands at call sites whose memory has grown all the time.\n";

constexpr const char* kSnapshotHelp =
    "Examples:\n"
    "  custash snapshot 4711                  custash-4711.html, a report to open\n"
    "  custash snapshot 4711 --history        from now on call sites are known\n"
    "  custash snapshot 4711 -o now.pickle    for pytorch.org/memory_viz\n"
    "\n"
    "The process goes on meanwhile. FILE is replaced whole or not at all.\n";

bool is_number(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         word.find_first_not_of("0123456789") == std::string::npos;
}

// There is the old file or the whole new one.
void write_file(const std::string& path, const std::string& text) {
  const std::string beside = path + "." + std::to_string(getpid()) + ".part";
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  if (file && std::rename(beside.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  std::remove(beside.c_str());
  throw BadSnapshot(path + ": " + why);
}

std::string ask(int process, const std::string& request, double patience) {
  std::string why;
  service::Connection connection = live::reach(process, &why);
  if (!connection.open()) throw BadSnapshot(why);
  const service::Reply reply =
      connection.ask(request, service::in_milliseconds(static_cast<int>(patience * 1000)));
  if (!reply.done()) throw BadSnapshot(live::refusal(reply, process));
  return reply.text;
}

// Reading takes nearly all of the time that a long history takes.
Json read_shown(const std::string& path) {
  Progress progress;
  progress.show(path, 0, 1);
  return read_snapshot(
      path, [&](std::size_t done, std::size_t all) { progress.show(path, done, all); });
}

// Functions and lines for its call sites.
void give_names(Json* snapshot, names::Servers servers) {
  static bool told = false;
  if (name_frames(snapshot, servers) || std::exchange(told, true)) return;
  std::fputs("custash: libdw.so.1 not found: call sites have no lines (Debian: apt-get install libdw1)\n",
             stderr);
}

// Of a process that runs; debuginfod's servers are never waited for then.
Json ask_snapshot(int process, const std::string& request, double patience) {
  Json snapshot = parse_snapshot(std::to_string(process), ask(process, request, patience));
  give_names(&snapshot, names::Servers::Never);
  return snapshot;
}

// One that can tell call sites: a file, or a process's number.
Json read_sites(const std::string& file, double patience) {
  const bool lives = is_number(file);
  Json snapshot = lives ? ask_snapshot(std::stoi(file), "leaks", patience) : read_shown(file);
  const Json& history = snapshot.at("history");
  if (!history.at("on").get<bool>() && history.at("sites").empty())
    throw BadSnapshot(file + ": knows no call sites, as history " +
                      (lives ? "is off (custash snapshot --history PID switches it on)"
                             : "was off (custash run --record-history FILE -- PROGRAM, or custash "
                               "snapshot --history PID)"));
  if (!lives) give_names(&snapshot, names::Servers::Ask);
  return snapshot;
}

void report(const CommandOptions& options) {
  const std::string to = options.output.empty() ? options.file + ".html" : options.output;
  Json snapshot = read_shown(options.file);
  give_names(&snapshot, names::Servers::Ask);
  write_file(to, text_of(snapshot, "html"));
  std::printf("%s\n", to.c_str());
}

void diff(const CommandOptions& options) {
  const Json before = read_sites(options.file, options.patience);
  const auto found = changes(before, read_sites(options.other, options.patience));
  std::fputs((options.json ? as_json(found) : as_text(found, options.most)).c_str(), stdout);
}

void leaks(const CommandOptions& options) {
  const std::string title = is_number(options.file) ? "allocated now" : "allocated in " + options.file;
  const Json snapshot = read_sites(options.file, options.patience);
  std::fputs(leaks_text(snapshot, title, options.most).c_str(), stdout);
}

void snapshot(const CommandOptions& options) {
  if (!is_number(options.file)) throw BadSnapshot(options.file + ": not a process's number");
  const int process = std::stoi(options.file);
  if (options.history) {
    (void)ask(process, "history 200000 16", options.patience);
    if (options.output.empty()) return;
  }
  const std::string to =
      options.output.empty() ? "custash-" + options.file + ".html" : options.output;
  const std::string form = form_of(to);
  write_file(to, text_of(ask_snapshot(process, "snapshot json", options.patience), form));
  std::printf("%s\n", to.c_str());
}

}  // namespace

std::string form_of(const std::string& path) {
  constexpr std::pair<std::string_view, const char*> kEndings[] = {{".trace.json", "trace"},
                                                                   {".perfetto", "trace"},
                                                                   {".json", "json"},
                                                                   {".html", "html"},
                                                                   {".pickle", "pickle"},
                                                                   {".pkl", "pickle"}};
  for (const auto& [ending, form] : kEndings) {
    if (path.size() > ending.size() &&
        path.compare(path.size() - ending.size(), ending.size(), ending) == 0)
      return form;
  }
  throw BadSnapshot(path + ": its ending is none of .html, .json, .pickle, .trace.json");
}

Commands add_commands(CLI::App& app, CommandOptions* options) {
  Commands commands;
  commands.report = app.add_subcommand("report", "make a page to read of a snapshot");
  commands.report->add_option("file", options->file, "custash's .json, or PyTorch's .pickle")
      ->required();
  commands.report->add_option("-o,--output", options->output, "where to (FILE.html)");
  commands.diff =
      app.add_subcommand("diff", "say what one snapshot holds more than another, by call site");
  commands.diff->add_option("before", options->file, "a snapshot")->required();
  commands.diff->add_option("after", options->other, "a later one")->required();
  commands.diff->add_flag("--json", options->json, "as JSON, all call sites");
  commands.leaks = app.add_subcommand("leaks", "say what is allocated, by call site");
  commands.leaks
      ->add_option("file", options->file, "a snapshot, or the number of a running process")
      ->required();
  for (CLI::App* each : {commands.diff, commands.leaks})
    each->add_option("--most", options->most, "how many call sites (20)");
  commands.snapshot = app.add_subcommand("snapshot", "write a snapshot of a running process");
  commands.snapshot->add_option("process", options->file, "its number (custash top)")
      ->required();
  commands.snapshot->add_option(
      "-o,--output",
      options->output,
      "where to; .html (custash-PROCESS.html), .json, .pickle, .trace.json");
  commands.snapshot->add_flag(
      "--history",
      options->history,
      "switch history on in it, so that later snapshots tell call sites; writes only "
      "with -o");
  for (CLI::App* each : {commands.diff, commands.leaks, commands.snapshot})
    each->add_option("--patience", options->patience, "seconds to wait for a process (10)");
  commands.report->footer(std::string(kReportHelp) + kExit);
  commands.diff->footer(std::string(kDiffHelp) + kExit);
  commands.leaks->footer(std::string(kLeaksHelp) + kExit);
  commands.snapshot->footer(std::string(kSnapshotHelp) + kExit);
  return commands;
}

std::optional<int> run_command(const Commands& commands, const CommandOptions& options) {
  const std::pair<CLI::App*, void (*)(const CommandOptions&)> kAll[] = {
      {commands.report, report},
      {commands.diff, diff},
      {commands.leaks, leaks},
      {commands.snapshot, snapshot}};
  for (const auto& [command, run] : kAll) {
    if (!*command) continue;
    try {
      run(options);
      return 0;
    } catch (const BadSnapshot& error) {
      std::fprintf(stderr, "custash: %s\n", error.what());
      return 1;
    }
  }
  return std::nullopt;
}

}  // namespace custash::snapshot
