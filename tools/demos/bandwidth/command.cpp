// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/command.hpp"

#include "tools/demos/bandwidth/mistakes.hpp"
#include "tools/demos/bandwidth/report.hpp"
#include "tools/output_file.hpp"
#include "tools/text.hpp"

#include <cstdio>

namespace custash::bandwidth {

namespace {

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

Plan plan_of(const CommandOptions& options) {
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

Output plot_output(const CommandOptions& options) {
  return {options.plot, output::Kind::Picture, options.force};
}

void measure(const CommandOptions& options, const Plan& plan) {
  const Outcome outcome = measure_all(plan);
  std::fputs((options.json ? json_of(outcome) : text_of(outcome)).c_str(), stdout);
  if (options.plot.empty()) return;
  write_output(plot_output(options), plot_of(outcome));
}

}  // namespace

int run_command(const CommandOptions& options) {
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

}  // namespace custash::bandwidth
