// SPDX-License-Identifier: MIT
// A program as text, a line for each command.
#pragma once

#include <string>

namespace custash::property {

// `call`: what the command does.
template <typename Command>
std::string line_of(const Command& command, const std::string& call) {
  std::string text = "thread " + std::to_string(command.thread) + " ctx" +
                     std::to_string(command.context) + "  " + call;
  if (command.nested != 0)
    text += "  // before its driver call " + std::to_string(command.entry) + ": the next " +
            std::to_string(command.nested);
  return text;
}

template <typename Program>
std::string listing(const Program& program) {
  std::string text = "program seed " + std::to_string(program.seed) + ", " +
                     std::to_string(program.threads) +
                     (program.synced ? " threads in turn\n" : " threads, not synchronised\n");
  int step = 0;
  for (const auto& command : program.commands)
    text += "  " + std::to_string(step++) + ": " + to_string(command) + "\n";
  return text;
}

}  // namespace custash::property
