// SPDX-License-Identifier: MIT
// The command `custash`: starts a program with the library preloaded, and explains the options.
// Reads its command line and environment, writes nothing to standard output but what was asked
// for.
#include "tools/command_line.hpp"
#include "tools/launch.hpp"
#include "tools/options_page.hpp"
#include "tools/output_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return custash::kExitCustash;
}

int dispatch(int argc, char** argv) {
  const custash::CommandLine line(Words(argv + 1, argv + argc));
  const std::string& command = line.command;
  if (command.empty()) return 0;
  if (command == "run") return custash::run_command(line.run);
  if (command == "bandwidth") return custash::bandwidth::run_command(line.bandwidth);
  if (command == "doctor") return custash::doctor::run_command(line.doctor);
  if (command == "replay") return custash::replay::run_command(line.replay);
  if (const auto code = custash::live::run_command(command, line.live)) return *code;
  if (const auto code = custash::snapshot::run_command(command, line.snapshot)) return *code;
  if (command == "options") std::fputs(custash::options_page().c_str(), stdout);
  if (command == "completion")
    std::fputs(custash::completion(line.description, line.shell).c_str(), stdout);
  if (command == "man") std::fputs(custash::man_page(line.description).c_str(), stdout);
  if (command == "version") std::puts("custash " CUSTASH_VERSION);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 0;
  try {
    code = dispatch(argc, argv);
  } catch (const custash::OutputRefused& error) {
    (void)fail(error.what());
    code = 1;
  } catch (const std::exception& error) {
    code = fail(error.what());
  }
  // What was printed may still be on its way, to a full disk for one.
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::fprintf(stderr, "custash: standard output cannot be written%s\n", why.c_str());
  return code == 0 ? 1 : code;
}
