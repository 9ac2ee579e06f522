// SPDX-License-Identifier: MIT
// The demo `bandwidth`: measures copies between host and device, and shows how not to measure
// them. An ordinary CUDA program, which runs without and with custash.
#include "tools/main.hpp"

#include "tools/command_line_parts.hpp"
#include "tools/demos/bandwidth/bench.hpp"
#include "tools/demos/bandwidth/mistakes.hpp"
#include "tools/output_file.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace custash::bandwidth {
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

struct Options {
  std::vector<std::string> sizes = {"64k", "1m", "16m", "256m"};
  std::vector<std::string> directions = {"h2d", "d2h"};
  std::vector<std::string> memories = {"pageable", "pinned"};
  std::vector<std::string> allocations = {"cached", "cold"};
  std::vector<unsigned> processes = {1};
  unsigned repetitions = 11;
  int device = 0;
  std::string plot;
  bool force = false;  // replace a picture that is not custash's
  bool json = false;
  bool mistakes = false;
};

constexpr unsigned kMostProcesses = 256;
constexpr unsigned kMostRepetitions = 10'000;

struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<Bytes> sizes_of(const std::vector<std::string>& words) {
  std::vector<Bytes> sizes;
  for (const std::string& word : words) {
    const auto size = size_of(word);
    if (!size || *size == 0)
      throw Misuse("--sizes " + word + " is not a size (write 65536, 64K or 1.5MiB)");
    sizes.push_back(*size);
  }
  return sizes;
}

// Those of `all` that the words name, in the words' order.
template <typename T>
std::vector<T> named(const std::string& option,
                     const std::vector<std::string>& words,
                     std::initializer_list<T> all) {
  std::vector<T> found;
  for (const std::string& word : words) {
    const auto* const one =
        std::find_if(all.begin(), all.end(), [&](T value) { return name_of(value) == word; });
    if (one == all.end()) {
      std::string message = option + " " + word + ": it is";
      for (const T& value : all)
        message += (&value == all.begin() ? " " : " or ") + std::string(name_of(value));
      throw Misuse(message);
    }
    found.push_back(*one);
  }
  return found;
}

Plan plan_of(const Options& options) {
  for (const unsigned processes : options.processes)
    if (processes == 0 || processes > kMostProcesses)
      throw Misuse("--processes takes 1 to " + std::to_string(kMostProcesses));
  if (options.repetitions == 0 || options.repetitions > kMostRepetitions)
    throw Misuse("--repetitions takes 1 to " + std::to_string(kMostRepetitions));
  if (options.device < 0) throw Misuse("--device takes 0 or more");
  if (!options.plot.empty()) require_svg(options.plot);
  return {.sizes = sizes_of(options.sizes),
          .directions = named(
              "--direction", options.directions, {Direction::ToDevice, Direction::ToHost}),
          .memories = named("--memory", options.memories, {Memory::Pageable, Memory::Pinned}),
          .allocations = named(
              "--allocation", options.allocations, {Allocation::Cached, Allocation::Cold}),
          .processes = options.processes,
          .repetitions = options.repetitions,
          .device = options.device};
}

Output plot_output(const Options& options) {
  return {options.plot, output::Kind::Picture, options.force};
}

void measure(const Options& options, const Plan& plan) {
  const Outcome outcome = measure_all(plan);
  std::fputs((options.json ? json_of(outcome) : text_of(outcome)).c_str(), stdout);
  if (options.plot.empty()) return;
  write_output(plot_output(options), plot_of(outcome));
}

// The exit code: 0; 1 when it could not be measured, the reason on standard error. A wrong
// option throws.
int run_with(const Options& options) {
  const Plan plan = plan_of(options);
  if (!options.plot.empty()) require_output(plot_output(options));
  try {
    if (options.mistakes) {
      const Mistakes mistakes = make_mistakes(plan.device, plan.repetitions);
      std::fputs((options.json ? json_of(mistakes) : text_of(mistakes)).c_str(), stdout);
    } else {
      measure(options, plan);
    }
  } catch (const Misuse&) {
    throw;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custash: %s\n", error.what());
    return 1;
  }
  return 0;
}

int run(const Words& words) {
  Options options;
  CLI::App app("measure copies between host and device", "bandwidth");
  CLI::Option* const mistakes =
      app.add_flag("--mistakes",
                   options.mistakes,
                   "show two common measuring mistakes beside the right way");
  const auto list = [&](const char* name, auto& values, const char* type, const char* text) {
    mistakes->excludes(add(&app, name, values, type, text)->delimiter(','));
  };
  list("--sizes", options.sizes, "SIZE,...", "bytes, or with K, M, G (powers of 1,024)");
  list("--direction", options.directions, "h2d|d2h", "to the device, to the host, or both");
  list("--memory", options.memories, "pageable|pinned", "kind of host memory");
  list("--allocation",
       options.allocations,
       "cached|cold",
       "cached (the buffer exists already), cold (each repetition allocates one)");
  list("--processes", options.processes, "NUMBER,...", "how many processes copy at once");
  add(&app, "--repetitions", options.repetitions, "NUMBER", "repetitions of each cell");
  add(&app, "--device", options.device, "NUMBER", "the device to measure");
  app.add_flag("--json", options.json, "print JSON");
  mistakes->excludes(add(&app, "--plot", options.plot, "OUT.svg", "plot the result"));
  add_force(&app, &options.force);
  app.footer(kHelp);
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // as CLI11 wants them
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    throw std::runtime_error(error.what());
  }
  return run_with(options);
}

}  // namespace
}  // namespace custash::bandwidth

int main(int argc, char** argv) {
  return custash::run_main(argc, argv, custash::bandwidth::run);
}
