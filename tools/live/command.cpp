// SPDX-License-Identifier: MIT
#include "tools/live/command.hpp"

#include "tools/live/processes.hpp"
#include "tools/live/top.hpp"
#include "tools/text.hpp"

#include <cstdio>

namespace custash::live {
namespace {

constexpr const char* kTopHelp =
    "Examples:\n"
    "  custash top                  until q is pressed\n"
    "  custash top --once           one look, rates over the delay\n"
    "  custash top --once --json | python3 -m json.tool\n"
    "\n"
    "IN USE is what programs own, RESERVED what custash has from the driver, LIMBO what is "
    "freed and\n"
    "waits for work on the device. ALLOC/S are allocations, DRIVER/S calls of the driver that "
    "made or\n"
    "gave back memory, AVOIDED frees that would have stalled on the bare driver, since the "
    "start. A\n"
    "process is asked at each look, and does nothing in between.\n";

constexpr const char* kStatHelp =
    "Examples:\n"
    "  custash stat 4711            the table of torch.cuda.memory_summary\n"
    "  custash stat --json 4711     every number: docs/statistics.md\n"
    "\n"
    "Exit status: 0; 1 where the process cannot be asked, and why is said.\n";

constexpr const char* kTrimHelp =
    "Examples:\n"
    "  custash trim 4711            all that is free\n"
    "  custash trim 4711 2g         2 GiB of it\n"
    "\n"
    "Memory in use, and memory that work on the device still uses, stays. Prints how many "
    "bytes the\n"
    "process gave back. Exit status: 0; 1 where the process cannot be asked, and why is "
    "said.\n";

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return 1;
}

// The reply's text; nothing, and why on standard error, where there is none.
std::optional<std::string> ask(const CommandOptions& options, const std::string& request) {
  const int process = options.process;
  std::string why;
  service::Connection connection = reach(process, &why);
  if (connection.open()) {
    const service::Reply reply = connection.ask(
        request, service::in_milliseconds(static_cast<int>(options.patience * 1000)));
    if (reply.done()) return reply.text;
    why = refusal(reply, process);
  }
  (void)fail(why);
  return std::nullopt;
}

int run_stat(const CommandOptions& options) {
  const char* const form = options.json ? "json" : options.prometheus ? "prometheus" : "table";
  std::string request = std::string("stat ") + form;
  if (options.device >= 0) request += " " + std::to_string(options.device);
  const auto text = ask(options, request);
  if (text) std::fputs(text->c_str(), stdout);
  return text ? 0 : 1;
}

int run_trim(const CommandOptions& options) {
  std::string bytes = "all";
  if (!options.bytes.empty()) {
    const auto size = size_of(options.bytes);
    if (!size) return fail(options.bytes + " is no size (write 65536, 64k, 2g)"), 125;
    bytes = std::to_string(*size);
  }
  const auto text = ask(options, "trim " + bytes);
  if (text) std::printf("%s bytes given back\n", text->c_str());
  return text ? 0 : 1;
}

void add_process(CLI::App* command, CommandOptions* options) {
  command->add_option("pid", options->process, "the process")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  command->add_option("--patience", options->patience, "seconds to wait for its answer (10)")
      ->check(CLI::Range(0.01, 3600.0))
      ->type_name("SECONDS");
}

}  // namespace

Commands add_commands(CLI::App& app, CommandOptions* options) {
  Commands commands;
  commands.top = app.add_subcommand("top", "watch what running programs hold on every device");
  commands.top->add_flag("--once", options->once, "print one look and end");
  commands.top->add_flag("--json", options->json, "print JSON, a line a look");
  commands.top->add_option("--delay", options->delay, "seconds between looks (1)")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS");
  commands.top->footer(kTopHelp);
  commands.stat = app.add_subcommand("stat", "print the statistics of a running program");
  add_process(commands.stat, options);
  commands.stat->add_option("--device", options->device, "of one device only")
      ->check(CLI::Range(0, 1 << 16));
  auto* const json =
      commands.stat->add_flag("--json", options->json, "print JSON, a line a device");
  commands.stat->add_flag("--prometheus", options->prometheus, "print Prometheus' text")
      ->excludes(json);
  commands.stat->footer(kStatHelp);
  commands.trim =
      app.add_subcommand("trim", "have a running program give free memory back to the driver");
  add_process(commands.trim, options);
  commands.trim->add_option(
      "bytes", options->bytes, "at least so much, e.g. 512m; all without it");
  commands.trim->footer(kTrimHelp);
  return commands;
}

std::optional<int> run_command(const Commands& commands, const CommandOptions& options) {
  if (*commands.top) return run_top({options.once, options.json, options.delay});
  if (*commands.stat) return run_stat(options);
  if (*commands.trim) return run_trim(options);
  return std::nullopt;
}

}  // namespace custash::live
