// SPDX-License-Identifier: MIT
#include "tools/snapshot/command.hpp"

#include "interpose/report_page.hpp"
#include "tools/live/processes.hpp"
#include "tools/progress.hpp"
#include "tools/snapshot/read.hpp"
#include "tools/snapshot/sites.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <unistd.h>

namespace custash::snapshot {

const char* const kExitHelp =
    "\n"
    "Exit status: 0; 1 where a file or a process cannot be read or written, and why is said.\n";

const char* const kReportHelp =
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

const char* const kDiffHelp =
    "Examples:\n"
    "  custash snapshot 4711 -o before.json; sleep 60; custash snapshot 4711 -o after.json\n"
    "  custash diff before.json after.json          what has grown, the most first\n"
    "  custash diff --json before.json after.json   all of it\n";

const char* const kLeaksHelp =
    "Examples:\n"
    "  custash leaks app.json       what was left, the most first\n"
    "  custash leaks 4711           of a running process, whose history is on\n"
    "  custash run --leaks -- ./app at its exit\n"
    "\n"
    "\"more and more of it\" stands at call sites whose memory has grown all the time.\n";

const char* const kSnapshotHelp =
    "Examples:\n"
    "  custash snapshot 4711                  custash-4711.html, a report to open\n"
    "  custash snapshot 4711 --history        from now on call sites are known\n"
    "  custash snapshot 4711 -o now.pickle    for pytorch.org/memory_viz\n"
    "\n"
    "The process goes on meanwhile. FILE is replaced whole or not at all.\n";

namespace {

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

std::string report_of(const Json& snapshot) {
  std::string json;
  for (const char c : snapshot.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<')
      json += "\\u003c";  // nothing in it can end the script that holds it
    else
      json += c;
  }
  return report_page(json);
}

// Reading takes nearly all of the time that a long history takes.
Json read_shown(const std::string& path) {
  Progress progress;
  progress.show(path, 0, 1);
  return read_snapshot(
      path, [&](std::size_t done, std::size_t all) { progress.show(path, done, all); });
}

// One that can tell call sites.
Json read_sites(const std::string& path) {
  Json snapshot = read_shown(path);
  const Json& history = snapshot.at("history");
  if (!history.at("on").get<bool>() && history.at("sites").empty())
    throw BadSnapshot(path +
                      ": knows no call sites, as history was off (custash run --record-history "
                      "FILE -- PROGRAM, or custash snapshot --history PID)");
  return snapshot;
}

// A page under another name would not open as one. Devices and pipes have any name.
void require_page(const std::string& path) {
  if (path.ends_with(".html") || path.ends_with(".htm") || path == "-") return;
  std::error_code none;
  if (std::filesystem::is_other(path, none)) return;
  throw BadSnapshot(path + ": report writes a page: end the name in .html");
}

void report(const CommandOptions& options) {
  const std::string to = options.output.empty() ? options.file + ".html" : options.output;
  require_page(to);
  write_file(to, report_of(read_shown(options.file)));
  std::printf("%s\n", to.c_str());
}

void diff(const CommandOptions& options) {
  const auto found = changes(read_sites(options.file), read_sites(options.other));
  std::fputs((options.json ? as_json(found) : as_text(found, options.most)).c_str(), stdout);
}

void leaks(const CommandOptions& options) {
  const std::string text = is_number(options.file)
                               ? ask(std::stoi(options.file), "leaks", options.patience)
                               : leaks_text(read_sites(options.file), options.most);
  std::fputs(text.c_str(), stdout);
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
  write_file(to, ask(process, "snapshot " + form_of(to), options.patience));
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

std::optional<int> run_command(std::string_view command, const CommandOptions& options) {
  const std::pair<std::string_view, void (*)(const CommandOptions&)> kAll[] = {
      {"report", report}, {"diff", diff}, {"leaks", leaks}, {"snapshot", snapshot}};
  for (const auto& [name, run] : kAll) {
    if (command != name) continue;
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
