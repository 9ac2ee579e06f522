// SPDX-License-Identifier: MIT
#include "tools/command/live/processes.hpp"
#include "tools/command/live/subcommands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include <poll.h>

namespace custash::live {

const char* const kSleepHelp =
    "Examples:\n"
    "  custash sleep 4711           all its device memory\n"
    "  custash sleep --all          of all your processes under custash\n"
    "  custash sleep --device 1     the memory of device 1, of all your processes\n"
    "\n"
    "Copies the memory to the host and releases it to the driver. Addresses, streams and graphs\n"
    "stay. The next work that a program submits wakes it. If a process cannot sleep, it stays as\n"
    "it is, and a message says why. docs/sleeping.md has the limits.\n"
    "\n"
    "Exit status: 0; 1 if a process stays awake or does not answer.\n";

const char* const kWakeHelp =
    "Examples:\n"
    "  custash wake 4711\n"
    "  custash wake --all\n"
    "\n"
    "Returns when the memory is on the device again. Waits while the device has no room. A\n"
    "process that does not answer for --patience seconds is left alone.\n"
    "\n"
    "Exit status: 0; 1 if a process does not answer.\n";

namespace {

using Clock = std::chrono::steady_clock;

struct Asked {
  int process;
  service::Connection connection;
  bool heard = false;  // it answered the ping before the request, and is working on that
  std::optional<service::Deadline> ask_again;  // it has said that it works on it
};

std::string request_of(std::string_view command, const CommandOptions& options) {
  if (command == "wake") return "wake";
  return std::string(command) + " " + std::to_string(options.device) + " " +
         std::to_string(static_cast<int>(options.patience * 1000));
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "custash: %s\n", why.c_str());
  return 1;
}

// Waits for answers, but not beyond `until`.
void wait_for_any(const std::vector<Asked>& asked, service::Deadline until) {
  std::vector<pollfd> waiting;
  for (const Asked& each : asked)
    waiting.push_back({each.connection.fd(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  (void)poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left.count(), 0)));
}

// True once nothing more is to be expected of it.
bool is_over(Asked& each, const std::string& request, bool late, int* failed) {
  if (each.ask_again && Clock::now() >= *each.ask_again) {
    each.ask_again.reset();
    (void)each.connection.send(request);  // where it is gone, that can be read
  }
  pollfd readable{each.connection.fd(), POLLIN, 0};
  if (poll(&readable, 1, 0) <= 0) {
    const bool given_up = each.heard ? is_stopped(each.process) : late;
    if (given_up) *failed = refuse(refusal({}, each.process));
    return given_up;
  }
  const service::Reply reply = each.connection.receive(service::in_milliseconds(1000));
  if (!each.heard && reply.done()) {
    each.heard = true;
    return false;
  }
  if (reply.heard && reply.status == service::ReplyStatus::Later) {
    each.ask_again = service::in_milliseconds(100);
    return false;
  }
  if (reply.done())
    std::printf("%d: %s\n", each.process, reply.text.c_str());
  else if (each.heard && !reply.heard)
    *failed = refuse("process " + std::to_string(each.process) + " ended before it answered");
  else
    *failed = refuse(refusal(reply, each.process));
  (void)std::fflush(stdout);
  return true;
}

void say_who_is_waited_for(const std::vector<Asked>& asked) {
  std::string line = "waiting for";
  for (const Asked& each : asked)
    line += " " + std::to_string(each.process);
  (void)refuse(line);
}

// All at once. A process that gives no sign within the patience is not waited for. One that has
// begun may take its time: copies are slow, and a device may be full for long.
int wait_for_all(std::vector<Asked> asked, const std::string& request, double patience) {
  constexpr std::chrono::seconds kBetweenLines{5};
  const auto first = service::in_milliseconds(static_cast<int>(std::max(patience, 1.0) * 1000));
  auto next_line = Clock::now() + kBetweenLines;
  int failed = 0;
  while (!asked.empty()) {
    wait_for_any(asked, std::min(service::in_milliseconds(100), next_line));
    const bool late = Clock::now() >= first;
    std::erase_if(asked, [&](Asked& each) { return is_over(each, request, late, &failed); });
    if (asked.empty() || Clock::now() < next_line) continue;
    next_line = Clock::now() + kBetweenLines;
    say_who_is_waited_for(asked);
  }
  return failed;
}

}  // namespace

int run_sleep(std::string_view command, const CommandOptions& options) {
  std::vector<int> processes = options.processes;
  if (options.all || (processes.empty() && options.device >= 0)) {
    for (const service::Identity& who : service::find_all())
      processes.push_back(who.pid);
    if (processes.empty()) std::puts("no process of yours runs under custash");
  } else if (processes.empty()) {
    return refuse("name a process, or --all"), 125;
  }
  const std::string request = request_of(command, options);
  int failed = 0;
  std::vector<Asked> asked;
  for (const int process : processes) {
    std::string why;
    Asked each{process, reach(process, &why)};
    if (!each.connection.open())
      failed = refuse(why);
    else if (!each.connection.send("ping") || !each.connection.send(request))
      failed = refuse(refusal({}, process));
    else
      asked.push_back(std::move(each));
  }
  return wait_for_all(std::move(asked), request, options.patience) | failed;
}

}  // namespace custash::live
