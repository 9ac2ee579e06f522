// SPDX-License-Identifier: MIT
#include "tools/command_line_parts.hpp"

#include <charconv>

namespace custash {
namespace {

CLI::Option* add_all(CLI::App* command, live::CommandOptions* options, CLI::Option* numbers) {
  return command->add_flag("--all", options->all, "all processes of this user under custash")
      ->excludes(numbers);
}

CLI::Option* add_device(CLI::App* command, live::CommandOptions* options) {
  return add(command, "--device", options->device, "NUMBER", "memory of this device only")
      ->check(CLI::Range(0, 1 << 16));
}

CLI::Option* add_numbers(CLI::App* command, live::CommandOptions* options) {
  return command->add_option("pid", options->processes, "the processes; custash top lists them")
      ->type_name("PID")
      ->check(must_be_process);
}

void add_patience(CLI::App* command, live::CommandOptions* options) {
  add(command, "--patience", options->patience, "SECONDS", "time to wait for an answer (10)")
      ->check(CLI::Range(0.01, 3600.0));
}

CLI::Option* add_process(CLI::App* command, live::CommandOptions* options) {
  add_patience(command, options);
  return add(command, "pid", options->process, "PID", "the process; custash top lists them")
      ->required()
      ->check(must_be_process);
}

}  // namespace

std::string must_be_process(const std::string& word) {
  int number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc() && stop == end && number > 0) return {};
  return word + " is not the number of a process";
}

void add_live(CLI::App& app, live::CommandOptions* options, const LiveHelp& help) {
  CLI::App* const top =
      app.add_subcommand("top", "watch the memory of running programs on each device");
  top->add_flag("--once", options->once, "print once and exit");
  top->add_flag("--json", options->json, "print JSON, one line per refresh");
  add(top, "--delay", options->delay, "SECONDS", "between refreshes (1)")
      ->check(CLI::Range(0.05, 3600.0));
  add(top,
      "--sort",
      options->sort,
      "rank|pid|device|in-use|reserved|limbo|peak|allocations|driver-calls|avoided|program",
      "sort by this column (in-use)");
  top->footer(help.top);
  CLI::App* const stat = app.add_subcommand("stat", "print the statistics of running programs");
  add_patience(stat, options);
  add_numbers(stat, options);
  add(stat, "--device", options->device, "NUMBER", "this device only")
      ->check(CLI::Range(0, 1 << 16));
  auto* const json = stat->add_flag("--json", options->json, "print JSON, one line per device");
  stat->add_flag("--prometheus", options->prometheus, "print Prometheus' format")
      ->excludes(json);
  stat->footer(help.stat);
  CLI::App* const trim =
      app.add_subcommand("trim", "make a running program return free memory to the driver");
  auto* const process = add_process(trim, options)->required(false);
  auto* const size =
      add(trim,
          "bytes",
          options->bytes,
          "SIZE",
          "return at least this many bytes, or with K, M, G (512M); all without it");
  auto* const deep = trim->add_flag(
      "--deep", options->deep, "also free memory in pages that are partly in use");
  deep->excludes(size);
  add_all(trim, options, process)->needs(deep);
  add_device(trim, options)->needs(deep);
  trim->footer(help.trim);
  CLI::App* const sleep = app.add_subcommand(
      "sleep", "move the device memory of running programs to the host until they need it");
  add_all(sleep, options, add_numbers(sleep, options));
  add_device(sleep, options);
  add(sleep,
      "--patience",
      options->patience,
      "SECONDS",
      "time to wait for an answer, and for running work (10)")
      ->check(CLI::Range(0.0, 3600.0));
  sleep->footer(help.sleep);
  CLI::App* const wake =
      app.add_subcommand("wake", "bring the memory of sleeping programs back to the device");
  add_all(wake, options, add_numbers(wake, options));
  add(wake, "--patience", options->patience, "SECONDS", "time to wait for an answer (10)")
      ->check(CLI::Range(0.0, 3600.0));
  wake->footer(help.wake);
  CLI::App* const serve =
      app.add_subcommand("serve", "serve the numbers of running programs to Prometheus");
  add(serve, "--port", options->port, "NUMBER", "port on 127.0.0.1 (9838); 0: any")
      ->check(CLI::Range(0, 65535));
  add(serve, "--textfile", options->textfile, "FILE.prom", "write this file for node_exporter");
  add(serve, "--interval", options->interval, "SECONDS", "between two files (15)")
      ->check(CLI::Range(1.0, 86400.0));
  serve->add_flag("--once", options->once, "write the file once and exit");
  add_force(serve, &options->force);
  serve->footer(help.serve);
}

}  // namespace custash
