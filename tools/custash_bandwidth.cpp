// SPDX-License-Identifier: MIT
// custash-bandwidth, which `custash bandwidth` starts: measures copies between host and device.
#include "tools/command_line.hpp"
#include "tools/main.hpp"

namespace {

using Words = std::vector<std::string>;

int dispatch(const Words& words) {
  Words all{"bandwidth"};
  all.insert(all.end(), words.begin(), words.end());
  const custash::CommandLine line(all, {.bandwidth = custash::bandwidth::kHelp});
  return line.command.empty() ? 0 : custash::bandwidth::run_command(line.bandwidth);
}

}  // namespace

int main(int argc, char** argv) {
  return custash::run_main(argc, argv, dispatch);
}
