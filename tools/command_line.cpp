// SPDX-License-Identifier: MIT
#include "tools/command_line.hpp"

#include "allocator/base/words.hpp"
#include "tools/command_line_parts.hpp"
#include "tools/conf.hpp"

#include <algorithm>

namespace custash {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kRunHelp =
    "Examples:\n"
    "  custash run -- ./train --epochs 3\n"
    "  custash run --summary -- python3 train.py\n"
    "  custash run --record app.trace.xz -- ./app\n"
    "  custash run --record-history report.html -- python3 train.py\n"
    "  torchrun --nproc-per-node 4 --no-python custash run --record-history r%r.html -- \\\n"
    "    python3 train.py            one report a rank; %r rank, %h host, %p process\n"
    "  custash run --conf \"backing:driver,log:info,log_file:custash.log\" -- ./app\n"
    "\n"
    "custash comes before the libraries in LD_PRELOAD. --conf adds to CUSTASH_CONF and overrides\n"
    "it. Programs that PROGRAM starts run under custash as well. Neither root nor a rebuilt\n"
    "PROGRAM is needed. A file NAME.py that cannot be executed is run by python3 (by\n"
    "`python -m custash`: by that Python).\n"
    "\n"
    "Options for --conf and CUSTASH_CONF, as key:value,key:value:\n";

constexpr const char* kRunExitCodes =
    "\n"
    "Exit status: PROGRAM's own, or that of --error-exitcode; 125 if custash itself fails (usage, library missing), 126 if\n"
    "PROGRAM cannot be run, 127 if it is not found.\n";

// Ends our own words where the program's begin: at "--", or at the first word that is no
// option. CLI11 must not see the rest, or it would take PROGRAM's options and subcommand-like
// names for its own.
Words split_off_program(const CLI::App& command, Words* ours) {
  const auto takes_next = [&](const std::string& word) {
    const CLI::Option* const option = command.get_option_no_throw(word);
    return option != nullptr && option->get_items_expected_max() > 0;
  };
  constexpr std::size_t kFirst = 1;  // after "run", "compare" or "doctor"
  std::size_t end = kFirst;
  while (end < ours->size() && ours->at(end).starts_with('-') && ours->at(end) != "--") {
    // No value is called "--": where one is missing the parser says so.
    const bool has_value =
        takes_next(ours->at(end)) && end + 1 < ours->size() && ours->at(end + 1) != "--";
    end += has_value ? 2 : 1;
  }
  end = std::min(end, ours->size());
  const std::size_t skip = end < ours->size() && ours->at(end) == "--" ? 1 : 0;
  Words program(ours->begin() + static_cast<std::ptrdiff_t>(end + skip), ours->end());
  ours->resize(end);
  return program;
}

void add_run(CLI::App& app, RunOptions* options) {
  CLI::App* const command = app.add_subcommand("run", "start a program with custash preloaded");
  command->add_flag(
      "--summary", options->summary, "print statistics to standard error at exit");
  add(command, "--conf", options->conf, kConf, "options (see below)");
  command->add_flag("--print-conf",
                    options->print_conf,
                    "print all options as PROGRAM would get them; do not start it");
  add(command, "--lib", options->library, "FILE", kLibrary);
  add(command,
      "--record",
      options->record,
      "FILE",
      "record every allocation and free in this file, for custash replay; .xz compresses it; "
      "a file that custash wrote is replaced");
  add(command,
      "--record-history",
      options->history,
      "FILE",
      "write a report of all memory by call site at exit: .html, or .json, .pickle (PyTorch's "
      "viewer), .trace.json (Perfetto), .pb.gz (pprof), .folded (flame graphs)");
  command->add_flag("--leaks",
                    options->leaks,
                    "list on standard error at exit what is still allocated, by call site");
  command->add_flag(
      "--check-memory",
      options->check_memory,
      "report kernels, copies and frees that use memory outside a block or after its free, "
      "and print them on standard error with call sites");
  command->add_flag(
      "--check-streams",
      options->check_streams,
      "report device memory used on a stream that is not ordered after its allocation and before its free");
  add(command, "--json", options->json, "FILE", "write what these two find to this file");
  add(command,
      "--suppressions",
      options->suppressions,
      "FILE",
      "call sites that these two and --leaks leave out: one glob a line, of a function, a file, "
      "FILE:LINE or a library")
      ->check(CLI::ExistingFile);
  add(command,
      "--error-exitcode",
      options->error_code,
      "NUMBER",
      "exit with this status (1 to 255) if these two or --leaks find something, or if nothing "
      "was checked")
      ->check(CLI::Range(1, 255));
  add_force(command, &options->force);
  // For the usage line only: split_off_program() has taken these words away.
  command->add_option(
      "program", options->program, "after --: the program to start, and its arguments");
  command->footer(kRunHelp + options_help(false) + "\nAdvanced:\n" + options_help(true) +
                  kRunExitCodes);
}

void add_doctor(CLI::App& app, doctor::CommandOptions* options, const HelpTexts& help) {
  CLI::App* const command = app.add_subcommand(
      "doctor", "diagnose this machine, a program or a running process, and suggest fixes");
  command->add_flag("--json", options->json, "print JSON");
  add(command, "--lib", options->library, "FILE", kLibrary);
  add(command, "--pid", options->process, "PID", "a running process, instead of a program")
      ->check(must_be_process);
  command->add_option("program", options->program, "after --: the program to inspect");
  command->footer(help.doctor);
}

void add_snapshot(CLI::App& app, snapshot::CommandOptions* options, const HelpTexts& help) {
  CLI::App* const report = app.add_subcommand("report", "turn a snapshot into an HTML report");
  add(report,
      "file",
      options->file,
      "FILE",
      "custash's .json, or PyTorch's .pickle; - for standard input")
      ->required();
  add(report, "after", options->other, "AFTER", "a later snapshot, to compare with FILE");
  add(report,
      "-o,--output",
      options->output,
      "OUT.html",
      "the file to write (FILE.html, AFTER.html)");
  add_force(report, &options->force);
  CLI::App* const diff = app.add_subcommand("diff", "compare two snapshots by call site");
  add(diff, "before", options->file, "FILE|PID", "a snapshot, or a running process")
      ->required();
  add(diff, "after", options->other, "FILE|PID", "a later one")->required();
  diff->add_flag("--json", options->json, "print JSON, with all call sites");
  CLI::App* const leaks = app.add_subcommand("leaks", "list live allocations by call site");
  add(leaks, "file", options->file, "FILE|PID", "a snapshot, or a running process")->required();
  for (CLI::App* each : {diff, leaks})
    add(each, "--most", options->most, "NUMBER", "how many call sites (20)");
  CLI::App* const snapshot =
      app.add_subcommand("snapshot", "write a snapshot of a running process");
  add(snapshot, "process", options->file, "PID", "the process; custash top lists them")
      ->required();
  add(snapshot,
      "-o,--output",
      options->output,
      "FILE",
      "the file to write (custash-PROCESS.html); .html, .json, .pickle, .trace.json, .pb.gz or .folded");
  snapshot->add_flag(
      "--history",
      options->history,
      "start recording call sites in the process; write a snapshot only with -o");
  add_force(snapshot, &options->force);
  for (CLI::App* each : {diff, leaks, snapshot})
    add(each, "--patience", options->patience, "SECONDS", "time to wait for it (10)");
  report->footer(help.report);
  diff->footer(help.diff);
  leaks->footer(help.leaks);
  snapshot->footer(help.snapshot);
}

void add_replay(CLI::App& app, replay::CommandOptions* options, const HelpTexts& help) {
  CLI::App* const command =
      app.add_subcommand("replay", "replay recorded allocations and report their cost");
  add(command, "files", options->files, "FILE", "traces")->required();
  add(command,
      "--backend",
      options->backend,
      "sim|cuda",
      "the simulated driver, or this machine's driver");
  add(command,
      "--through",
      options->through,
      "custash|driver|pool",
      "the allocator: custash, driver (cuMemAlloc) or pool (cuMemAllocAsync)");
  add(command, "--conf", options->conf, kConf, "options of the allocator");
  add(command,
      "--capacity",
      options->capacity,
      "[SIZE]",
      "size of the simulated device (bytes, or with K, M, G: 1.5G); without a size, find the "
      "smallest on which the trace fits, with and without custash");
  command->add_flag("--idle",
                    options->idle,
                    "also trim at moments after the peak, and say what is held then");
  command->add_flag("--json", options->json, "print JSON, one object per trace");
  add(command, "--plot", options->plot, "OUT.svg", "plot bytes in use and held");
  add_force(command, &options->force);
  command->add_flag("--expandable-model",
                    options->models,
                    "also model PyTorch's allocator, with and without expandable segments");
  add(command,
      "--in-flight",
      options->in_flight,
      "NUMBER",
      "launches that the simulated device may lag behind (1024)");
  command->footer(help.replay);
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

std::string hint(const std::string& word, const Words& known) {
  const std::string best(
      nearest(word, std::vector<std::string_view>(known.begin(), known.end())));
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::string see_help(const std::string& command) {
  return " (custash " + command + (command.empty() ? "" : " ") + "--help)";
}

// CLI11's message of a missing value in words of ours; others as they are.
std::string plain(std::string message) {
  constexpr std::string_view kBefore = ": 1 required ";
  constexpr std::string_view kAfter = " missing";
  constexpr std::string_view kNone = " is required";
  if (message.ends_with(kNone))
    return "missing: " + message.erase(message.size() - kNone.size());
  const auto at = message.find(kBefore);
  if (at == std::string::npos || !message.ends_with(kAfter)) return message;
  message.erase(message.size() - kAfter.size());
  return message.replace(at, kBefore.size(), " needs a value: ");
}

// What a command cannot make sense of.
std::string unexpected(const CLI::App& command) {
  const Words left = command.remaining();
  const auto option = std::find_if(
      left.begin(), left.end(), [](const auto& word) { return word.starts_with('-'); });
  if (option == left.end()) return left.front() + ": this command takes no such word";
  Words known;
  for (const OptionText& each : options_of(command))
    known.insert(known.end(), each.names.begin(), each.names.end());
  const std::string name = option->substr(0, option->find('='));
  return name + ": no such option" + hint(name, known);
}

// Of a command of the last minor version, of a misspelt one, and of a program whose "run" was
// forgotten.
std::string no_such_command(const Description& custash, const std::string& word) {
  if (word == "bandwidth")
    return word + ": moved to tools/demos/bandwidth of custash's sources";
  Words known;
  for (const CommandText& each : custash.commands)
    known.push_back(each.name);
  const std::string near = hint(word, known);
  return word + ": no such command" +
         (near.empty()
              ? " (custash --help lists them; custash run -- " + word + " starts a program)"
              : near);
}

}  // namespace

CommandLine::CommandLine(Words words, const HelpTexts& help) {
  if (words.empty()) throw std::runtime_error("no command given; see custash --help");
  if (words.front() == "help") {
    words.erase(words.begin());
    words.resize(std::min<std::size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
  if (words.front() == "replay") words = replay::prepared(std::move(words));

  CLI::App app("custash: a drop-in caching allocator for CUDA", "custash");
  app.set_version_flag("-V,--version", "custash " CUSTASH_VERSION);
  app.require_subcommand(1);
  add_run(app, &run);
  add_compare(app, &compare, help.compare);
  add_doctor(app, &doctor, help);
  add_live(app, &live, {help.top, help.stat, help.trim, help.sleep, help.wake, help.serve});
  add_snapshot(app, &snapshot, help);
  add_replay(app, &replay, help);
  app.add_subcommand("options", "print the options page (Markdown)");
  app.add_subcommand("completion", "print a completion script for a shell")
      ->add_option("shell", shell, "which shell")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check([](const std::string& word) {
        const bool known = word == "bash" || word == "zsh" || word == "fish";
        return known ? "" : word + " is none of bash, zsh and fish";
      });
  app.add_subcommand("man", "print the manual page");
  app.add_subcommand("version", "print the version");
  // For the list of commands only: its words are turned round above.
  app.add_subcommand("help", "print the help of a command")
      ->add_option("command", shell, "which command")
      ->type_name("COMMAND");
  description = description_of(app);

  const CLI::App* chosen = &app;
  std::string name;
  if (!words.front().starts_with('-')) {
    name = words.front();
    const auto named = app.get_subcommands(
        [&](const CLI::App* each) { return each->get_name() == words.front(); });
    if (named.empty()) throw std::runtime_error(no_such_command(description, name));
    chosen = named.front();
  }
  if (name == "run") run.program = split_off_program(*chosen, &words);
  if (name == "compare") compare.program = split_off_program(*chosen, &words);
  if (name == "doctor") doctor.program = split_off_program(*chosen, &words);

  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
    command = name;
  } catch (const CLI::Success& asked) {
    app.exit(asked);
  } catch (const CLI::ParseError& error) {
    const bool extra =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) || name.empty();
    throw std::runtime_error((extra ? unexpected(*chosen) : plain(error.what())) +
                             see_help(name));
  }
}

}  // namespace custash
