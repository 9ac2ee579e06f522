// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/command.hpp"

#include "tools/command/live/processes.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/named.hpp"
#include "tools/command/snapshot/read.hpp"
#include "tools/command/snapshot/report_page.hpp"
#include "tools/command/snapshot/sites.hpp"
#include "tools/output_file.hpp"
#include "tools/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

namespace custash::snapshot {

const char* const kExitHelp =
    "\n"
    "Exit status: 0; 1 if a file or a process cannot be read or written; a message says why.\n";

const char* const kReportHelp =
    "Examples:\n"
    "  custash run --record-history app.json -- ./app    makes a snapshot at exit\n"
    "  custash report app.json                           app.json.html, to open in a browser\n"
    "  custash report app.html.json                      app.html, of the JSON that a program wrote\n"
    "  custash report app.json -o app.pickle             for PyTorch's viewer; .trace.json: Perfetto\n"
    "  custash report app.json -o app.pb.gz              for pprof; .folded: flame graphs, speedscope\n"
    "  custash report torch.pickle -o page.html          PyTorch's _dump_snapshot()\n"
    "  custash report - < app.json > page.html           standard input and output\n"
    "  custash report before.json after.json             two files, and what changed\n"
    "  custash report found.json                         findings of run --check-memory --json\n"
    "\n"
    "The report shows memory over time by call site, a flame graph, each block's life, the\n"
    "memory after any event, and what is left. docs/observing.md says how to read it. The command\n"
    "reads the files only: code in a pickle never runs.\n";

const char* const kDiffHelp =
    "Examples:\n"
    "  custash snapshot 4711 -o before.json; sleep 60; custash snapshot 4711 -o after.json\n"
    "  custash diff before.json after.json          call sites that have grown, largest first\n"
    "  custash diff before.json 4711                from the snapshot to a running process\n"
    "  custash diff --json before.json after.json   all call sites\n";

const char* const kLeaksHelp =
    "Examples:\n"
    "  custash leaks app.json       what was left, largest first\n"
    "  custash leaks 4711           a running process with its history on\n"
    "  custash run --leaks -- ./app at its exit\n"
    "\n"
    "Call sites whose memory has kept growing are marked \"growing\".\n";

const char* const kSnapshotHelp =
    "Examples:\n"
    "  custash snapshot 4711                  custash-4711.html, a report to open\n"
    "  custash snapshot 4711 --history        record call sites from now on\n"
    "  custash snapshot 4711 -o now.pickle    for pytorch.org/memory_viz\n"
    "\n"
    "The process keeps running. FILE is replaced whole or not at all.\n";

namespace {

bool is_number(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         word.find_first_not_of("0123456789") == std::string::npos;
}

// Names the file on standard output, unless that got the text itself.
void write_and_tell(const Output& output, const std::string& text) {
  write_output(output, text);
  if (!is_standard_output(output)) std::printf("%s\n", output.path.c_str());
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
Json parse_shown(const std::string& path, const std::string& bytes) {
  Progress progress;
  progress.show(path, 0, 1);
  return parse_snapshot(
      path, bytes, [&](std::size_t done, std::size_t all) { progress.show(path, done, all); });
}

Json read_shown(const std::string& path) {
  return parse_shown(path, read_bytes(path));
}

// Functions and lines for its call sites.
void give_names(Json* snapshot, names::Servers servers) {
  tell_of_libdw(name_frames(snapshot, servers));
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
    throw BadSnapshot(
        file + ": knows no call sites, as history " +
        (lives ? "is off (custash snapshot --history PID switches it on)"
               : "was off (custash run --record-history FILE -- PROGRAM, or custash "
                 "snapshot --history PID)"));
  if (!lives) give_names(&snapshot, names::Servers::Ask);
  return snapshot;
}

// Devices and pipes have any name.
bool is_page(const Output& to) {
  std::error_code none;
  return to.path.ends_with(".htm") || is_standard_output(to) ||
         std::filesystem::is_other(to.path, none);
}

// As a reader of the report knows it.
std::string shown_name(const std::string& file) {
  return file == "-" ? "standard input" : file;
}

// Where a report goes if the user names no file.
std::string usual_report(const std::string& file) {
  if (file == "-") return file;
  std::string rendered = rendered_path(file);
  if (!rendered.empty()) return rendered;
  return file.ends_with(".html") ? file : file + ".html";  // a page is made anew
}

// Without the folders, where that tells them apart.
std::pair<std::string, std::string> names_apart(const std::string& a, const std::string& b) {
  const auto last = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  return last(a) == last(b) ? std::pair(a, b) : std::pair(last(a), last(b));
}

void report(const CommandOptions& options) {
  const bool typed = !options.output.empty();
  const std::string& newest = options.other.empty() ? options.file : options.other;
  const std::string path = typed ? options.output : usual_report(newest);
  Output to{path, output::Kind::Report, options.force, typed || path == "-"};
  const Form form = is_page(to) ? Form::Html : form_of(to.path);
  if (form != Form::Html) to.kind = kind_of(to.path);
  const auto require_page = [&] {
    if (form != Form::Html)
      throw BadSnapshot(to.path + ": only a page shows that: end the name in .html");
  };
  const auto read = [](const std::string& file, const std::string& bytes) {
    Json snapshot = parse_shown(file, bytes);
    give_names(&snapshot, names::Servers::Ask);
    return snapshot;
  };
  const std::string bytes = read_bytes(options.file);
  if (options.other.empty() && is_guard_report(bytes)) {
    require_page();
    bool complete = true;
    write_and_tell(to, findings_page(options.file, bytes, &complete));
    return tell_of_libdw(complete);
  }
  const Json first = read(options.file, bytes);
  if (options.other.empty())
    return write_and_tell(to,
                          form == Form::Html ? page_of({shown_name(options.file), &first})
                                             : text_of(first, form));
  require_page();
  const Json second = read(options.other, read_bytes(options.other));
  const auto [before, after] = names_apart(shown_name(options.file), shown_name(options.other));
  write_and_tell(to, page_of({before, &first}, {after, &second}));
}

void diff(const CommandOptions& options) {
  const Json before = read_sites(options.file, options.patience);
  const auto found = changes(before, read_sites(options.other, options.patience));
  std::fputs((options.json ? as_json(found) : as_text(found, options.most)).c_str(), stdout);
}

void leaks(const CommandOptions& options) {
  const std::string title =
      is_number(options.file) ? "allocated now" : "allocated in " + shown_name(options.file);
  const Json snapshot = read_sites(options.file, options.patience);
  std::fputs(leaks_text(snapshot, title, options.most, older_of(snapshot)).c_str(), stdout);
}

void snapshot(const CommandOptions& options) {
  if (!is_number(options.file)) throw BadSnapshot(options.file + ": not a process's number");
  const int process = std::stoi(options.file);
  if (options.history) {
    (void)ask(process, "history 200000 16", options.patience);
    if (options.output.empty()) {
      std::printf("call sites are recorded from now on: custash leaks %d lists them\n",
                  process);
      return;
    }
  }
  const bool typed = !options.output.empty();
  const std::string path = typed ? options.output : "custash-" + options.file + ".html";
  const Output to{path, kind_of(path), options.force, typed};
  require_output(to);
  write_and_tell(
      to, text_of(ask_snapshot(process, "snapshot json", options.patience), form_of(path)));
}

}  // namespace

Form form_of(const std::string& path) {
  if (path == "-") return Form::Html;
  if (const auto form = form_of_ending(path)) return *form;
  throw BadSnapshot(path + ": " + kOtherEnding);
}

output::Kind kind_of(const std::string& path) {
  constexpr output::Kind kKinds[] = {output::Kind::Snapshot,
                                     output::Kind::Report,
                                     output::Kind::Pickle,
                                     output::Kind::TraceEvents,
                                     output::Kind::Profile,
                                     output::Kind::Profile};
  return kKinds[static_cast<std::size_t>(form_of(path))];
}

std::optional<int> run_command(std::string_view command, const CommandOptions& options) {
  constexpr std::pair<std::string_view, void (*)(const CommandOptions&)> kAll[] = {
      {"report", report}, {"diff", diff}, {"leaks", leaks}, {"snapshot", snapshot}};
  for (const auto& [name, run] : kAll) {
    if (command != name) continue;
    try {
      run(options);
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "custash: %s\n", error.what());
      return 1;
    }
  }
  return std::nullopt;
}

}  // namespace custash::snapshot
