// SPDX-License-Identifier: MIT
#include "tools/command/live/command.hpp"

#include "tools/command/live/processes.hpp"
#include "tools/command/live/rows.hpp"
#include "tools/command/live/stat.hpp"
#include "tools/command/live/subcommands.hpp"
#include "tools/text.hpp"

#include <cstdio>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

namespace custash::live {

const char* const kTopHelp =
    "Examples:\n"
    "  custash top                  until q is pressed; h lists the keys\n"
    "  custash top --sort rank      the ranks of one training in their order\n"
    "  custash top --once           print once, with rates over the delay\n"
    "  custash top --once --json | python3 -m json.tool\n"
    "\n"
    "IN USE: memory that the program owns. RESERVED: memory that custash holds from the driver.\n"
    "LIMBO: freed memory that pending work on the device may still use. ALLOC/S: allocations.\n"
    "DRIVER/S: driver calls that allocated or freed memory. AVOIDED: frees since the start that\n"
    "would have stalled without custash. In the bars, others are other programs and what CUDA\n"
    "itself needs. Each refresh queries the processes; they do no work in between. NO_COLOR in\n"
    "the environment switches colour off.\n";

const char* const kStatHelp =
    "Examples:\n"
    "  custash stat 4711            the table of torch.cuda.memory_summary\n"
    "  custash stat 4711 4712       of two processes\n"
    "  custash stat --json 4711     every number: docs/observing.md\n"
    "  custash stat < numbers       the table of numbers that were printed as JSON\n"
    "\n"
    "Exit status: 0; 1 if a process does not answer; a message says why.\n";

const char* const kTrimHelp =
    "Examples:\n"
    "  custash trim 4711            all free memory\n"
    "  custash trim 4711 2g         2 GiB of it\n"
    "  custash trim --deep 4711     also free memory in partly used pages\n"
    "  custash trim --deep --all    of all your processes under custash\n"
    "\n"
    "Keeps memory that is in use, or that pending work on the device may still use. Prints how\n"
    "many bytes the process returned. With --deep new work waits until the work that runs has\n"
    "ended, for --patience at most, and then cuts the pages. docs/sleeping.md has the limits.\n"
    "\n"
    "Exit status: 0; 1 if the process does not answer, or if --deep cut no page because the\n"
    "process could not be kept still; a message says why.\n";

const char* const kServeHelp =
    "Examples:\n"
    "  custash serve                               http://127.0.0.1:9838/metrics\n"
    "  custash serve --textfile /var/lib/node_exporter/custash.prom\n"
    "  custash serve --textfile custash.prom --once\n"
    "\n"
    "Serves the numbers of all processes of this user under custash to Prometheus. Only programs\n"
    "on this machine can connect. There is nothing to change: GET and HEAD alone are served.\n"
    "docs/deploying.md has examples for Prometheus, node_exporter, systemd and Grafana.\n"
    "\n"
    "Exit status: 0 when a signal ends it; 1 if the port or the file is not available.\n";

namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return 1;
}

// The reply's text; nothing, and why on standard error, where there is none.
std::optional<std::string> ask(int process,
                               const CommandOptions& options,
                               const std::string& request) {
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

std::optional<std::string> from_stdin() {
  std::string text;
  char part[1 << 14];
  while (isatty(STDIN_FILENO) == 0) {
    const std::size_t got = std::fread(part, 1, sizeof part, stdin);
    if (got == 0) break;
    text.append(part, got);
  }
  if (!text.empty()) return text;
  (void)fail("name a process; custash top lists them");
  return std::nullopt;
}

// Lines of JSON with the number of their process.
std::string with_process(const std::string& text, int process) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    out += "{\"pid\":" + std::to_string(process) + "," + line.substr(1) + "\n";
  return out;
}

int show_stat(const std::string& text, const CommandOptions& options) {
  if (options.json) return std::fputs(text.c_str(), stdout), 0;
  try {
    const std::vector<statistics::Statistics> devices = statistics::read(text);
    if (options.prometheus)
      return std::fputs(statistics::prometheus_of(devices).c_str(), stdout), 0;
    for (const statistics::Statistics& each : devices)
      std::fputs(statistics::table_of(each.device).c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

int run_stat(const CommandOptions& options) {
  std::string request = "stat json";
  if (options.device >= 0) request += " " + std::to_string(options.device);
  if (options.processes.empty()) {
    const auto text = from_stdin();
    return text ? show_stat(*text, options) : 125;
  }
  const bool several = options.processes.size() > 1;
  if (several && options.prometheus)
    return fail("--prometheus takes one process (custash serve has all of them)"), 125;
  int failed = 0;
  for (const int process : options.processes) {
    const auto text = ask(process, options, request);
    if (text && several && !options.json) std::printf("process %d\n", process);
    const bool mark = several && options.json;
    failed |= text ? show_stat(mark ? with_process(*text, process) : *text, options) : 1;
  }
  return failed;
}

int run_trim(const CommandOptions& options) {
  if (options.deep) {
    CommandOptions deep = options;
    if (options.process != 0) deep.processes = {options.process};
    return run_sleep("deep_trim", deep);
  }
  if (options.process == 0) return fail("name a process; custash top lists them"), 125;
  std::string bytes = "all";
  if (!options.bytes.empty()) {
    const auto size = size_of(options.bytes);
    if (!size) return fail(options.bytes + " is not a size (write 65536, 64K or 1.5GiB)"), 125;
    bytes = std::to_string(*size);
  }
  const auto text = ask(options.process, options, "trim " + bytes);
  if (text)
    std::printf("%s returned\n", human(std::strtoull(text->c_str(), nullptr, 10)).c_str());
  return text ? 0 : 1;
}

int serve(const CommandOptions& options) {
  try {
    return run_serve(
        {options.port, options.textfile, options.interval, options.once, options.force});
  } catch (const std::runtime_error& error) {
    return fail(error.what());
  }
}

int run_top(const CommandOptions& options) {
  if (!options.sort.empty() && column_of(options.sort) == nullptr)
    return fail(options.sort + " is no column to sort by (custash top --help)"), 125;
  return run_top(TopOptions{options.once, options.json, options.delay, options.sort});
}

}  // namespace

std::optional<int> run_command(std::string_view command, const CommandOptions& options) {
  if (command == "top") return run_top(options);
  if (command == "stat") return run_stat(options);
  if (command == "trim") return run_trim(options);
  if (command == "sleep" || command == "wake") return run_sleep(command, options);
  if (command == "serve") return serve(options);
  return std::nullopt;
}

}  // namespace custash::live
