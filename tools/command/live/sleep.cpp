// SPDX-License-Identifier: MIT
#include "tools/command/live/sleep.hpp"

#include "tools/command/live/processes.hpp"

#include <cstdio>

namespace custash::live {

const char* const kSleepHelp =
    "Examples:\n"
    "  custash sleep 4711           all its device memory\n"
    "  custash sleep --all          of all your processes under custash\n"
    "  custash sleep --device 1     the memory of device 1, of all your processes\n"
    "\n"
    "The contents go to host memory, and the memory goes back to the driver. Addresses, streams\n"
    "and graphs stay. The next work that a program submits wakes it. A process is left as it is\n"
    "where that cannot be done; a message says why. docs/sleep.md has the limits.\n"
    "\n"
    "Exit status: 0; 1 if a process stays awake or does not answer.\n";

const char* const kWakeHelp =
    "Examples:\n"
    "  custash wake 4711\n"
    "  custash wake --all\n"
    "\n"
    "Returns when the memory is on the device again. Waits while the device has no room.\n"
    "\n"
    "Exit status: 0; 1 if a process does not answer.\n";

namespace {

// Copies take their time, and a device may be full for long.
constexpr int kMinutes = 10;

std::string request_of(std::string_view command, const CommandOptions& options) {
  if (command == "wake") return "wake";
  return std::string(command) + " " + std::to_string(options.device) + " " +
         std::to_string(static_cast<int>(options.patience * 1000));
}

}  // namespace

int run_sleep(std::string_view command, const CommandOptions& options) {
  std::vector<int> processes = options.processes;
  const bool all = options.all || (processes.empty() && options.device >= 0);
  if (all) {
    for (const service::Identity& who : service::find_all())
      processes.push_back(who.pid);
  } else if (processes.empty()) {
    std::fputs("custash: name a process, or --all\n", stderr);
    return 125;
  }
  const std::string request = request_of(command, options);
  int failed = 0;
  for (const int process : processes) {
    std::string why;
    service::Connection connection = reach(process, &why);
    if (connection.open()) {
      const service::Reply reply =
          connection.ask(request, service::in_milliseconds(kMinutes * 60'000));
      why = reply.done() ? "" : refusal(reply, process);
      if (reply.done()) std::printf("%d: %s\n", process, reply.text.c_str());
    }
    if (why.empty()) continue;
    std::fprintf(stderr, "custash: %s\n", why.c_str());
    failed = 1;
  }
  return failed;
}

}  // namespace custash::live
