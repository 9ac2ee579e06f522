// SPDX-License-Identifier: MIT
// What the files of the command line share: how options are added. With command_line*.cpp the
// one place that knows CLI11, which takes seconds to compile. No state.
#pragma once

#include "tools/command/compare/command.hpp"
#include "tools/command/live/command.hpp"

#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace custash {

inline constexpr const char* kConf = "KEY:VALUE,...";
inline constexpr const char* kLibrary = "libcustash.so, if it is not next to this command";

// `type` is the value in the help, and what shells complete (describe.cpp).
template <typename Value>
CLI::Option* add(
    CLI::App* command, const char* name, Value& value, const char* type, const char* help) {
  return command->add_option(name, value, help)
      ->type_name(type)
      ->check([type = std::string(type)](const std::string& word) -> std::string {
        if (word == "--") return "needs a value before --";
        if constexpr (std::is_floating_point_v<Value>)  // which passes CLI::Range
          if (std::isnan(std::strtod(word.c_str(), nullptr))) return word + " is not a number";
        return word.empty() && type != kConf ? "needs a value: " + type : "";
      });
}

inline void add_force(CLI::App* command, bool* force) {
  command->add_flag("--force", *force, "replace a file that custash did not write");
}

// For CLI11: what is wrong with the word, or nothing.
std::string must_be_process(const std::string& word);

// The subcommand `compare`.
void add_compare(CLI::App& app, compare::CommandOptions* options, const std::string& help);

struct LiveHelp {
  const std::string& top;
  const std::string& stat;
  const std::string& trim;
  const std::string& sleep;
  const std::string& wake;
  const std::string& serve;
};

// The subcommands for running programs: `top`, `stat`, `trim`, `sleep`, `wake` and `serve`.
void add_live(CLI::App& app, live::CommandOptions* options, const LiveHelp& help);

}  // namespace custash
