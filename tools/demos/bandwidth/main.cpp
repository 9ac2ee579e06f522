// SPDX-License-Identifier: MIT
// The demo `bandwidth`: measures copies between host and device, and shows how not to measure
// them. An ordinary CUDA program, which runs without and with custash.
#include "tools/main.hpp"

#include "tools/command_line_parts.hpp"
#include "tools/demos/bandwidth/command.hpp"

#include <algorithm>
#include <stdexcept>

namespace {

using Words = std::vector<std::string>;

constexpr const char* kHelp =
    "Separate the items of a list with commas. The clock of a process starts when its CUDA\n"
    "context exists, and all processes begin each copy together. Medians leave out the\n"
    "first round of each cell; the time of its allocation is in a column of its own (1st\n"
    "alloc). GB are 10^9 bytes. Under `custash run`, the program releases cached pinned\n"
    "memory before each cold cell.\n"
    "\n"
    "Examples:\n"
    "  bandwidth --sizes 1m,1g --processes 1,4 --plot driver.svg\n"
    "  custash run -- bandwidth --sizes 1m,1g --memory pinned\n"
    "  bandwidth --mistakes\n"
    "\n"
    "Exit status: 0; 1 if it cannot measure: no driver, no device, too little memory; 125\n"
    "for a wrong option.\n";

int run(const Words& words) {
  custash::bandwidth::CommandOptions options;
  CLI::App app("measure copies between host and device", "bandwidth");
  CLI::Option* const mistakes =
      app.add_flag("--mistakes",
                   options.mistakes,
                   "show two common measuring mistakes beside the right way");
  const auto list = [&](const char* name, auto& values, const char* type, const char* text) {
    mistakes->excludes(custash::add(&app, name, values, type, text)->delimiter(','));
  };
  list("--sizes", options.sizes, "SIZE,...", "bytes, or with K, M, G (powers of 1,024)");
  list("--direction", options.directions, "h2d|d2h", "to the device, to the host, or both");
  list("--memory", options.memories, "pageable|pinned", "kind of host memory");
  list("--allocation",
       options.allocations,
       "cached|cold",
       "cached (the buffer exists already), cold (each repetition allocates one)");
  list("--processes", options.processes, "NUMBER,...", "how many processes copy at once");
  custash::add(
      &app, "--repetitions", options.repetitions, "NUMBER", "repetitions of each cell");
  custash::add(&app, "--device", options.device, "NUMBER", "the device to measure");
  app.add_flag("--json", options.json, "print JSON");
  mistakes->excludes(custash::add(&app, "--plot", options.plot, "OUT.svg", "plot the result"));
  custash::add_force(&app, &options.force);
  app.footer(kHelp);
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // as CLI11 wants them
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    throw std::runtime_error(error.what());
  }
  return custash::bandwidth::run_command(options);
}

}  // namespace

int main(int argc, char** argv) {
  return custash::run_main(argc, argv, run);
}
