// SPDX-License-Identifier: MIT
#include "tools/command_line.hpp"

#include "tools/launch.hpp"
#include "tools/options_page.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

namespace custash {
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
    if (takes_next && end + 1 < ours->size() && ours->at(end + 1) == "--")
      throw std::runtime_error(ours->at(end) + " needs a value before --");
    end += takes_next ? 2 : 1;
  }
  end = std::min(end, ours->size());
  const std::size_t skip = end < ours->size() && ours->at(end) == "--" ? 1 : 0;
  Words program(ours->begin() + static_cast<std::ptrdiff_t>(end + skip), ours->end());
  ours->resize(end);
  return program;
}

void add_force(CLI::App* command, bool* force) {
  command->add_flag("--force", *force, "replace a file that custash did not write");
}

void add_run(CLI::App& app, RunOptions* options) {
  CLI::App* const command = app.add_subcommand("run", "start a program with custash preloaded");
  command->add_flag(
      "--summary", options->summary, "print statistics to standard error at exit");
  command->add_option("--conf", options->conf, "options, key:value,key:value (see below)");
  command->add_option(
      "--lib", options->library, "libcustash.so, where it is not beside this command");
  command->add_option("--record",
                      options->record,
                      "write down every allocation and free in this file, for custash replay; "
                      ".xz packs it");
  command->add_option(
      "--record-history",
      options->history,
      "write a report of all memory by call site at exit: .html, or .json, .pickle (PyTorch's "
      "viewer), .trace.json (Perfetto)");
  command->add_flag("--leaks",
                    options->leaks,
                    "say on standard error at exit what is still allocated, by call site");
  add_force(command, &options->force);
  // For the usage line only: split_off_program() has taken these words away.
  command->add_option(
      "program", options->program, "after --: what to start, and its arguments");
  command->footer(kRunHelp + options_help() + kRunExitCodes);
}

void add_bandwidth(CLI::App& app, bandwidth::CommandOptions* options) {
  CLI::App* const command =
      app.add_subcommand("bandwidth", "measure copies between host and device");
  CLI::Option* const mistakes =
      command->add_flag("--mistakes",
                        options->mistakes,
                        "instead: two ways to measure this wrongly, beside the right one");
  const auto list = [&](const char* name, auto& values, const char* what) {
    mistakes->excludes(
        command->add_option(name, values, what)->delimiter(',')->type_name("LIST"));
  };
  list("--sizes", options->sizes, "bytes, or with k, m, g");
  list("--direction", options->directions, "h2d (host to device), d2h");
  list("--memory", options->memories, "pageable, pinned: the memory on the host");
  list("--allocation",
       options->allocations,
       "cached (the buffer is there before), cold (each repetition allocates one)");
  list("--processes", options->processes, "how many copy at once");
  command->add_option("--repetitions", options->repetitions, "of each cell");
  command->add_option("--device", options->device, "which device");
  command->add_flag("--json", options->json, "print JSON");
  mistakes->excludes(
      command->add_option("--plot", options->plot, "write a picture")->type_name("OUT.svg"));
  add_force(command, &options->force);
  command->footer(bandwidth::kHelp);
}

void add_doctor(CLI::App& app, doctor::CommandOptions* options) {
  CLI::App* const command = app.add_subcommand(
      "doctor",
      "say what custash finds on this machine, in a program or a process, and what to do");
  command->add_flag("--json", options->json, "print JSON");
  command->add_option(
      "--lib", options->library, "libcustash.so, where it is not beside this command");
  command->add_option("--pid", options->process, "a process that runs, in place of a program")
      ->check(CLI::Range(1, 1 << 22));
  command->add_option("program", options->program, "after --: the program to look at");
  command->footer(doctor::kHelp);
}

void add_process(CLI::App* command, live::CommandOptions* options) {
  command->add_option("pid", options->process, "the process")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  command->add_option("--patience", options->patience, "seconds to wait for its answer (10)")
      ->check(CLI::Range(0.01, 3600.0))
      ->type_name("SECONDS");
}

void add_live(CLI::App& app, live::CommandOptions* options) {
  CLI::App* const top =
      app.add_subcommand("top", "watch what running programs hold on every device");
  top->add_flag("--once", options->once, "print one look and end");
  top->add_flag("--json", options->json, "print JSON, a line a look");
  top->add_option("--delay", options->delay, "seconds between looks (1)")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS");
  top->footer(live::kTopHelp);
  CLI::App* const stat =
      app.add_subcommand("stat", "print the statistics of a running program");
  add_process(stat, options);
  stat->add_option("--device", options->device, "of one device only")
      ->check(CLI::Range(0, 1 << 16));
  auto* const json = stat->add_flag("--json", options->json, "print JSON, a line a device");
  stat->add_flag("--prometheus", options->prometheus, "print Prometheus' text")->excludes(json);
  stat->footer(live::kStatHelp);
  CLI::App* const trim =
      app.add_subcommand("trim", "have a running program give free memory back to the driver");
  add_process(trim, options);
  trim->add_option("bytes", options->bytes, "at least so much, e.g. 512m; all without it");
  trim->footer(live::kTrimHelp);
}

void add_snapshot(CLI::App& app, snapshot::CommandOptions* options) {
  CLI::App* const report = app.add_subcommand("report", "make a page to read of a snapshot");
  report->add_option("file", options->file, "custash's .json, or PyTorch's .pickle")
      ->required();
  report->add_option("-o,--output", options->output, "where to (FILE.html)");
  add_force(report, &options->force);
  CLI::App* const diff =
      app.add_subcommand("diff", "say what one snapshot holds more than another, by call site");
  diff->add_option("before", options->file, "a snapshot")->required();
  diff->add_option("after", options->other, "a later one")->required();
  diff->add_flag("--json", options->json, "as JSON, all call sites");
  CLI::App* const leaks = app.add_subcommand("leaks", "say what is allocated, by call site");
  leaks->add_option("file", options->file, "a snapshot, or the number of a running process")
      ->required();
  for (CLI::App* each : {diff, leaks})
    each->add_option("--most", options->most, "how many call sites (20)");
  CLI::App* const snapshot =
      app.add_subcommand("snapshot", "write a snapshot of a running process");
  snapshot->add_option("process", options->file, "its number (custash top)")->required();
  snapshot->add_option("-o,--output",
                       options->output,
                       "where to; .html (custash-PROCESS.html), .json, .pickle, .trace.json");
  snapshot->add_flag(
      "--history",
      options->history,
      "switch history on in it, so that later snapshots tell call sites; writes only "
      "with -o");
  add_force(snapshot, &options->force);
  for (CLI::App* each : {diff, leaks, snapshot})
    each->add_option("--patience", options->patience, "seconds to wait for a process (10)");
  report->footer(std::string(snapshot::kReportHelp) + snapshot::kExitHelp);
  diff->footer(std::string(snapshot::kDiffHelp) + snapshot::kExitHelp);
  leaks->footer(std::string(snapshot::kLeaksHelp) + snapshot::kExitHelp);
  snapshot->footer(std::string(snapshot::kSnapshotHelp) + snapshot::kExitHelp);
}

void add_replay(CLI::App& app, replay::CommandOptions* options) {
  CLI::App* const command =
      app.add_subcommand("replay", "replay recorded allocations and say what they cost");
  command->add_option("files", options->files, "traces")->required()->type_name("FILE");
  command->add_option("--backend", options->backend, "sim, the simulated driver, or cuda");
  command->add_option("--through",
                      options->through,
                      "what serves the requests: custash, driver (cuMemAlloc) or pool "
                      "(cuMemAllocAsync)");
  command->add_option("--conf", options->conf, "options of the allocator, key:value,key:value");
  command
      ->add_option(
          "--capacity",
          options->capacity,
          "on a simulated device of so many bytes; without a size: the smallest on which "
          "the trace fits, through custash and bare")
      ->type_name("[BYTES]");
  command->add_flag("--json", options->json, "print JSON, one object a trace");
  command->add_option("--plot", options->plot, "write a picture of bytes in use and held")
      ->type_name("OUT.svg");
  add_force(command, &options->force);
  command->add_flag(
      "--expandable-model",
      options->models,
      "beside it, what PyTorch's allocator and its expandable segments would take");
  command->add_option("--in-flight",
                      options->in_flight,
                      "launches by which the simulated device may be behind (1024)");
  command->footer(replay::kHelp);
}

// "--" ends the options: as a value it is a slip.
void refuse_dashes(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    for (CLI::Option* option : command->get_options([](CLI::Option*) { return true; }))
      if (option->nonpositional() && option->get_items_expected_max() > 0)
        option->check([](const std::string& value) {
          return std::string(value == "--" ? "needs a value before --" : "");
        });
}

OptionText text_of(const CLI::Option& option) {
  OptionText text{.name = option.get_name(),
                  .type = option.get_type_name(),
                  .help = option.get_description(),
                  .takes_value = option.get_items_expected_max() > 0};
  for (const std::string& name : option.get_snames())
    text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    text.names.push_back("--" + name);
  return text;
}

std::vector<OptionText> options_of(const CLI::App& app) {
  std::vector<OptionText> options;
  for (const CLI::Option* option : app.get_options())
    options.push_back(text_of(*option));
  return options;
}

Description description_of(const CLI::App& app) {
  Description description{.options = options_of(app)};
  for (const CLI::App* each : app.get_subcommands({}))
    description.commands.push_back(
        {each->get_name(), each->get_description(), each->get_footer(), options_of(*each)});
  return description;
}

}  // namespace

CommandLine::CommandLine(Words words) {
  if (!words.empty() && words.front() == "run") run.program = split_off_program(&words);
  if (!words.empty() && words.front() == "doctor") doctor.program = split_off_program(&words);
  if (!words.empty() && words.front() == "replay") words = replay::prepared(std::move(words));

  CLI::App app("custash: a drop-in caching allocator for CUDA", "custash");
  app.set_version_flag("--version", "custash " CUSTASH_VERSION);
  app.require_subcommand(1);
  add_run(app, &run);
  add_bandwidth(app, &bandwidth);
  add_doctor(app, &doctor);
  add_live(app, &live);
  add_snapshot(app, &snapshot);
  add_replay(app, &replay);
  app.add_subcommand("options", "print the options page (Markdown)");
  app.add_subcommand("completion", "print a completion script for a shell")
      ->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_subcommand("man", "print the manual page");
  app.add_subcommand("version", "print the version");
  refuse_dashes(app);
  description = description_of(app);

  const auto is_first_word = [&](const CLI::App* each) {
    return each->get_name() == words.front();
  };
  if (!words.empty() && words.front().rfind('-', 0) != 0 &&
      app.get_subcommands(is_first_word).empty())
    throw std::runtime_error(words.front() +
                             ": no such command (custash --help lists them; custash run -- " +
                             words.front() + " starts a program)");

  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
    command = app.get_subcommands().front()->get_name();
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kExitCustash;
  }
}

}  // namespace custash
