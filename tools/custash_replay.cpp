// SPDX-License-Identifier: MIT
// custash-replay, which `custash replay` starts: replays recorded allocations.
#include "tools/command_line.hpp"
#include "tools/main.hpp"

namespace {

using Words = std::vector<std::string>;

int dispatch(const Words& words) {
  Words all{"replay"};
  all.insert(all.end(), words.begin(), words.end());
  const custash::CommandLine line(all, {.replay = custash::replay::kHelp});
  return line.command.empty() ? 0 : custash::replay::run_command(line.replay);
}

}  // namespace

int main(int argc, char** argv) {
  return custash::run_main(argc, argv, dispatch);
}
