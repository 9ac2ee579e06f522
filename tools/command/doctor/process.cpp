// SPDX-License-Identifier: MIT
// A process that runs: what it has loaded by now, plug-ins and extensions too, and what custash
// has served in it. Only /proc is read, and the process's service asked.
#include "interpose/counters/passed_counts.hpp"
#include "tools/command/doctor/examine.hpp"
#include "tools/command/live/processes.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace custash::doctor {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

// How often the code of each file is mapped: once for each namespace that has loaded it.
std::map<std::string, int> modules_of(std::ifstream& maps) {
  std::map<std::string, int> modules;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, rights, offset, device, inode, path;
    words >> range >> rights >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (rights.size() > 2 && rights[2] == 'x' && !path.empty() && path.front() == '/')
      ++modules[path];
  }
  return modules;
}

bool shares_namespace(const std::string& folder, const char* kind) {
  struct stat here {};

  struct stat there {};

  const std::string name = std::string("/ns/") + kind;
  return stat(("/proc/self" + name).c_str(), &here) == 0 &&
         stat((folder + name).c_str(), &there) == 0 && here.st_ino == there.st_ino;
}

// Why the process cannot be queried; empty where it can. Another user's namespaces cannot be
// read either.
std::string why_unknown(const std::string& folder, uid_t owner) {
  if (owner != geteuid())
    return "only its own user, " + live::user_name(owner) + ", may query it";
  if (!shares_namespace(folder, "net") || !shares_namespace(folder, "pid"))
    return "it runs in another container";
  return "";
}

// "3 allocations of device memory", or the share where the driver served some.
std::string served_text(const live::Page& page) {
  std::uint64_t calls = 0;
  Bytes bytes = 0;
  for (std::int64_t i = 0; i < page.device_count; ++i) {
    calls += static_cast<std::uint64_t>(page.devices[i].allocations);
    bytes += static_cast<Bytes>(page.devices[i].requested_bytes);
  }
  passed::PassedCounts passed{};
  for (std::size_t i = 0; i < passed.size(); ++i)
    passed[i] = {static_cast<std::uint64_t>(page.by_driver[i].allocations),
                 static_cast<Bytes>(page.by_driver[i].allocated_bytes),
                 static_cast<std::uint64_t>(page.by_driver[i].live),
                 static_cast<Bytes>(page.by_driver[i].live_bytes)};
  std::string share = passed::share_text(passed, calls, bytes);
  if (!share.empty()) return share;
  return calls == 0 ? "" : "served " + std::to_string(calls) + " allocations of device memory";
}

// What the process says now, or said when its user asked last.
std::optional<live::Seen> page_of(pid_t process, uid_t owner) {
  std::vector<live::Seen> all;
  if (owner == geteuid()) {
    all = live::Watch().poll(kPatience);
  } else {
    for (const live::Page& page : live::read_all(owner))
      all.push_back({page, false});
  }
  for (const live::Seen& seen : all)
    if (seen.page.pid == process) return seen;
  return std::nullopt;
}

Finding finding_of_served(const std::string& subject,
                          pid_t process,
                          const std::string& folder,
                          uid_t owner) {
  const std::string under = "runs under custash, which ";
  const auto seen = page_of(process, owner);
  const std::string served = seen ? served_text(seen->page) : "";
  if (seen && seen->answered && served.empty())
    return {
        Level::Warning,
        subject,
        under + "has served no allocation of device memory",
        "It has requested none yet, or its calls bypass custash: see docs/troubleshooting.md."};
  if (seen && seen->answered) return {Level::Ok, subject, under + "has " + served, ""};
  if (!served.empty())
    return {Level::Ok, subject, under + "had, when it was last asked, " + served, ""};
  if (const std::string why = why_unknown(folder, owner); !why.empty())
    return {Level::Note,
            subject,
            "runs under custash; how much it was served is unknown: " + why,
            "Run this command there, as its user."};
  if (seen)
    return {Level::Note,
            subject,
            "runs under custash; how much it was served is unknown: it does not answer",
            "Check whether it is stopped."};
  return {Level::Warning,
          subject,
          "runs under custash and does not listen: it has no device memory yet, or has the "
          "option control:off",
          "If it does use device memory, its calls bypass custash: see "
          "docs/troubleshooting.md."};
}

}  // namespace

void examine_process(pid_t process, Findings* findings) {
  const std::string folder = "/proc/" + std::to_string(process);
  const std::string subject = "process " + std::to_string(process);
  std::ifstream maps(folder + "/maps");

  struct stat info {};

  if (!maps || stat(folder.c_str(), &info) != 0) {
    const bool is_none = errno == ENOENT;
    findings->push_back({Level::Problem,
                         subject,
                         is_none ? "no such process" : std::strerror(errno),
                         is_none ? "custash top lists those that run under custash."
                                 : "Run this command as its user."});
    return;
  }
  std::vector<Module> modules;
  for (const auto& [path, times] : modules_of(maps)) {
    // As the process sees it: its root may be another.
    modules.push_back({path, folder + "/root" + path});
    if (times > 1 && path.compare(path.rfind('/') + 1, 10, "libcuda.so") == 0)
      findings->push_back({Level::Warning,
                           path,
                           "is loaded " + std::to_string(times) + " times",
                           "A separate namespace (dlmopen) has its own driver, which "
                           "custash does not serve."});
  }
  const Form form = form_of(modules, findings);
  // In a container the files are others.
  const std::string driver = shares_namespace(folder, "mnt") ? driver_file() : "";
  const bool to_cuda = examine_modules(modules, form, driver, findings);
  if (!to_cuda)
    findings->push_back({Level::Note, subject, "has loaded no CUDA library", ""});
  else if (form == Form::None)
    findings->push_back(
        {Level::Problem,
         subject,
         "runs without custash",
         "Custash cannot be put into a running process: start it with custash run."});
  else
    findings->push_back(finding_of_served(subject, process, folder, info.st_uid));
}

}  // namespace custash::doctor
