// SPDX-License-Identifier: MIT
#include "tools/command/live/processes.hpp"

#include "tools/command/live/look.hpp"

#include <algorithm>
#include <fstream>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::live {
namespace {

constexpr unsigned kMisses = 8;
constexpr int kHardlyMilliseconds = 2;

std::string proc(pid_t process) {
  std::string path("/proc/");  // by pieces: GCC 12 warns of more (PR 105651)
  return path += std::to_string(process);
}

// Whether libcustash is among what a process has mapped.
bool has_library(pid_t process) {
  std::ifstream maps(proc(process) + "/maps");
  std::string line;
  while (std::getline(maps, line))
    if (line.find("libcustash") != std::string::npos) return true;
  return false;
}

std::string why_none(pid_t process) {
  const std::string name = "process " + std::to_string(process);

  struct stat info {};

  if (stat(proc(process).c_str(), &info) != 0) return "there is no " + name;
  if (info.st_uid != geteuid())
    return name + " belongs to " + user_name(info.st_uid) +
           ", and only its own user may query it (run this command as that user)";
  if (!has_library(process))
    return name + " does not run under custash (start it with custash run)";
  return name +
         " runs under custash and does not listen: it has no device memory yet, or has the "
         "option control:off";
}

}  // namespace

std::string user_name(uid_t user) {
  const passwd* const entry = getpwuid(user);
  return entry == nullptr ? std::to_string(user) : entry->pw_name;
}

bool is_stopped(pid_t process) {
  std::ifstream file(proc(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name = line.rfind(')');  // which may hold anything
  return name != std::string::npos && name + 2 < line.size() &&
         (line[name + 2] == 'T' || line[name + 2] == 't');
}

std::optional<Seen> Watch::receive(Asked& each, service::Deadline until) {
  const service::Reply reply =
      each.connection.open() ? each.connection.receive(until) : service::Reply{};
  const auto page = reply.done() ? parse(reply.text) : std::nullopt;
  each.missed = reply.heard ? 0 : each.missed + 1;
  // What comes later would be taken for the answer to the next question.
  if (!reply.heard) each.connection = service::Connection();
  if (!page || page->pid != each.who.pid) return std::nullopt;
  return Seen{*page, true};
}

std::vector<Seen> Watch::poll(std::chrono::milliseconds patience) {
  std::vector<service::Identity> there = service::find_all();
  std::erase_if(asked_, [&](const Asked& each) {
    return std::find(there.begin(), there.end(), each.who) == there.end();
  });
  for (const service::Identity& who : there) {
    const auto known = std::find_if(
        asked_.begin(), asked_.end(), [&](const Asked& each) { return each.who == who; });
    if (known == asked_.end()) asked_.push_back({who, service::Connection(who), 0});
  }
  // All at once: the slowest decides how long it takes, not their sum.
  for (Asked& each : asked_) {
    if (!each.connection.open()) each.connection = service::Connection(each.who);
    if (!each.connection.send("live")) each.connection = service::Connection();
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  std::vector<Seen> seen;
  const auto receive_from = [&](bool patiently) {
    for (Asked& each : asked_) {
      if ((each.missed % kMisses == 0) != patiently) continue;
      const auto told =
          receive(each, patiently ? until : service::in_milliseconds(kHardlyMilliseconds));
      if (told) seen.push_back(*told);
    }
  };
  receive_from(true);
  receive_from(false);  // they have had the time of the others
  for (const Page& page : read_all(geteuid())) {
    const bool has_answered = std::any_of(
        seen.begin(), seen.end(), [&](const Seen& each) { return each.page.pid == page.pid; });
    if (!has_answered && page.pid_namespace == pid_namespace()) seen.push_back({page, false});
  }
  std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
    return a.page.pid < b.page.pid;
  });
  return seen;
}

service::Connection reach(pid_t process, std::string* why) {
  for (const service::Identity& who : service::find_all()) {
    if (who.pid != process) continue;
    service::Connection connection(who);
    if (connection.open()) return connection;
  }
  *why = why_none(process);
  return {};
}

std::string refusal(const service::Reply& reply, pid_t process) {
  const std::string name = "process " + std::to_string(process);
  if (!reply.heard)
    return name + " does not answer: " +
           (is_stopped(process) ? "it is stopped"
                                : "it is busy with another request, or is ending a context");
  switch (reply.status) {
    case service::ReplyStatus::UnknownVerb:
      return name + " has an older custash, which cannot do this";
    case service::ReplyStatus::NotNow:
      return name + " is about to exit, or has no host memory left";
    default:
      return name + " refuses" + (reply.text.empty() ? "" : ": " + reply.text);
  }
}

Look Looker::poll(std::chrono::milliseconds patience) {
  Look look;
  look.seen = watch_.poll(patience);
  std::erase_if(look.seen,
                [](const Seen& each) { return each.page.updated == 0; });  // says nothing
  look.at = monotonic_now();
  for (const Seen& each : look.seen)
    look.programs[each.page.pid] =
        program_of(static_cast<pid_t>(each.page.pid), each.page.name);
  const std::size_t devices = nvml_ ? nvml_->devices() : 0;
  for (std::size_t i = 0; i < devices; ++i) {
    const int number = static_cast<int>(i);
    if (const auto memory = nvml_->memory(i))
      look.devices.push_back({number, nvml_->address(i), *memory, nvml_->uuid(i)});
    for (const DeviceProcess& each : nvml_->processes(i))
      if (each.used) look.held[{each.process, number}] = static_cast<std::int64_t>(*each.used);
  }
  return look;
}

}  // namespace custash::live
