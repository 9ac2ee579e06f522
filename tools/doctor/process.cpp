// SPDX-License-Identifier: MIT
// A process that runs: what it has loaded by now, plug-ins and extensions too, and what custash
// has served in it. Only /proc is read, and the process's service asked.
#include "tools/doctor/program.hpp"
#include "tools/live/processes.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

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

bool is_named(const std::string& path, const char* name) {
  return path.compare(path.rfind('/') + 1, std::strlen(name), name) == 0;
}

std::int64_t served_in(pid_t process) {
  std::int64_t sum = 0;
  for (const live::Seen& seen : live::Watch().look(kPatience)) {
    for (std::int64_t i = 0; seen.page.pid == process && i < seen.page.device_count; ++i)
      sum += seen.page.devices[i].allocations;
  }
  return sum;
}

Finding finding_of(const std::string& subject, bool preloaded, bool to_cuda, pid_t process) {
  if (!preloaded && !to_cuda) return {Level::Note, subject, "has not come to CUDA", ""};
  if (!preloaded)
    return {Level::Problem,
            subject,
            "runs without custash",
            "Start it with custash run; into a process that runs already it cannot be put."};
  const std::int64_t served = served_in(process);
  if (served == 0 && to_cuda)
    return {Level::Warning,
            subject,
            "runs under custash, which has served no allocation of device memory",
            "It has asked for none yet, or what asks passes by: see docs/troubleshooting.md."};
  return {Level::Ok,
          subject,
          "runs under custash, which has served " + std::to_string(served) +
              " allocations of device memory",
          ""};
}

}  // namespace

bool examine_process(pid_t process, Findings* findings) {
  const std::string folder = "/proc/" + std::to_string(process);
  const std::string subject = "process " + std::to_string(process);
  std::ifstream maps(folder + "/maps");
  if (!maps) {
    const bool is_none = errno == ENOENT;
    findings->push_back({Level::Problem,
                         subject,
                         is_none ? "there is none" : std::strerror(errno),
                         is_none ? "custash top lists those that run under custash."
                                 : "Its own user may look at it."});
    return false;
  }
  bool preloaded = false;
  bool to_cuda = false;
  for (const auto& [path, times] : modules_of(maps)) {
    if (is_named(path, "libcustash.so")) {
      preloaded = true;
      findings->push_back({Level::Ok, path, "custash", ""});
      continue;
    }
    const bool is_driver = is_named(path, "libcuda.so");
    // As the process sees it: its root may be another.
    to_cuda = examine_module(path, folder + "/root" + path, findings) || is_driver || to_cuda;
    if (times > 1 && is_driver)
      findings->push_back({Level::Warning,
                           path,
                           "is loaded " + std::to_string(times) + " times",
                           "A namespace of its own (dlmopen) has a driver of its own, which "
                           "custash does not serve."});
  }
  findings->push_back(finding_of(subject, preloaded, to_cuda, process));
  return true;
}

}  // namespace custash::doctor
