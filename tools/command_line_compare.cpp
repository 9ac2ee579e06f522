// SPDX-License-Identifier: MIT
#include "tools/command_line_parts.hpp"

namespace custash {

void add_compare(CLI::App& app, compare::CommandOptions* options, const std::string& help) {
  CLI::App* const command = app.add_subcommand(
      "compare", "run a program without and with custash in turn, and compare");
  const auto add_number =
      [&](const char* name, unsigned& value, unsigned least, const char* text) {
        constexpr unsigned kMost = 100;
        add(command, name, value, "NUMBER", text)->check(CLI::Range(least, kMost));
      };
  const auto add_list =
      [&](const char* name, auto& values, const char* type, const char* text) {
        add(command, name, values, type, text)
            ->expected(1)
            ->allow_extra_args(false)  // else CLI11 takes [0-9] for a list
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      };
  add_number("--runs",
             options->rounds,
             1,
             "measured runs of each side (10); 6 or more can show a difference");
  add_number("--warmup", options->warmup, 0, "runs of each side before these, not counted (1)");
  add(command, "--conf", options->conf, kConf, "options of custash, as custash run takes them");
  add(command,
      "--against",
      options->against,
      "KEY:VALUE,...",
      "compare --conf with these options of custash, instead of with a run without custash");
  add_list("--with-env",
           options->with_env,
           "NAME=VALUE",
           "set this variable with custash only; may be given several times");
  add(command, "--lib", options->library, "FILE", kLibrary);
  add(command,
      "--metric",
      options->metric,
      "REGEX",
      "also compare a number that PROGRAM prints: the last match's first group, or all of it; "
      "lower is better");
  command->add_flag(
      "--metric-higher", options->metric_higher, "a higher number of --metric is better");
  add_list("--ignore",
           options->ignore,
           "REGEX",
           "lines of standard output that may differ; may be given several times");
  command->add_flag("-i,--ignore-failure",
                    options->ignore_failure,
                    "go on when PROGRAM fails, and compare how it ends");
  add(command, "--timeout", options->timeout, "SECONDS", "the longest that one run may take")
      ->check(CLI::Range(0.01, 1e6));
  add(command,
      "--keep",
      options->keep,
      "FOLDER",
      "keep the output of each measured run in this folder, which must exist");
  command->add_flag("--json", options->json, "print JSON");
  add_list("--export",
           options->exports,
           "FILE",
           "also write a .html, .md, .svg or .json file; may be given several times");
  add_force(command, &options->force);
  command->add_option(
      "program", options->program, "after --: the program to start, and its arguments");
  command->footer(help);
}

}  // namespace custash
