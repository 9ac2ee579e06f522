// SPDX-License-Identifier: MIT
#include "allocator/base/config.hpp"
#include "interpose/process/checkers.hpp"
#include "tools/command/doctor/examine.hpp"
#include "tools/conf.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace custash::doctor {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Options that do nothing beside another one, or here.
void examine_idle_options(const Config& config, Findings* findings) {
  if (!config.sleep_dir.empty() && access((config.sleep_dir + "/.").c_str(), W_OK | X_OK) != 0)
    findings->push_back({Level::Warning,
                         "CUSTASH_CONF",
                         "sleep_dir:" + config.sleep_dir + ": " + std::strerror(errno),
                         "Create that folder, or name another: only what fits into "
                         "sleep_memory can sleep without it."});
  if (config.yield_after != 0 && !config.neighbours)
    findings->push_back({Level::Warning,
                         "CUSTASH_CONF",
                         "yield_after needs neighbours:true",
                         "Remove neighbours:false, or that option."});
  const bool has_service = config.control;
  const bool has_pages = config.backing != Backing::Driver && config.caching != Caching::Never;
  if (has_service && has_pages) return;
  const std::pair<const char*, std::uint32_t> options[] = {
      {"sleep_after", config.sleep_after}, {"deep_trim_after", config.deep_trim_after}};
  for (const auto& [name, seconds] : options) {
    if (seconds == 0) continue;
    findings->push_back(
        {Level::Warning,
         "CUSTASH_CONF",
         std::string(name) + (has_service ? " needs mapped pages" : " needs control:true"),
         has_service ? "Remove backing:driver and caching:never, or that option."
                     : "Remove control:false, or that option."});
  }
}

void examine_options(Findings* findings) {
  const std::string text = environment("CUSTASH_CONF");
  const ParsedConfig parsed = parse_config(text);
  for (const std::string& complaint : parsed.complaints) {
    findings->push_back({Level::Problem,
                         "CUSTASH_CONF",
                         mistake_in(complaint) + "; the library ignores it",
                         "Correct it; docs/options.md lists every option."});
  }
  for (const std::string& notice : parsed.notices)
    findings->push_back({Level::Warning, "CUSTASH_CONF", mistake_in(notice), "Remove it."});
  if (!parsed.config.enabled) {
    findings->push_back({Level::Warning,
                         "CUSTASH_CONF",
                         "enabled:false switches custash off",
                         "Remove it so that custash serves programs."});
  } else if (parsed.complaints.empty()) {
    std::string given;
    for (const auto& [name, value] : parsed.given)
      given += (given.empty() ? "" : ",") + std::string(name) + ":" + value;
    findings->push_back({Level::Ok,
                         "CUSTASH_CONF",
                         given.empty()
                             ? "not set: defaults"
                             : given + "; others: defaults (custash run --print-conf)",
                         ""});
    examine_idle_options(parsed.config, findings);
  }
}

// What the library does about it: option caching.
void examine_checkers(Findings* findings) {
  const char* const seen = checkers::told_by_environment(std::getenv);
  const std::string injected = environment(checkers::kInjection);
  const bool cached =
      parse_config(environment("CUSTASH_CONF")).config.caching == Caching::Always;
  if (seen != nullptr && cached) {
    findings->push_back({Level::Warning,
                         seen,
                         "compute-sanitizer is active, and sees segments, not blocks",
                         "Set the option caching: to auto for exact reports."});
  } else if (seen != nullptr) {
    findings->push_back({Level::Note,
                         seen,
                         "compute-sanitizer is active: custash caches nothing",
                         "Set CUSTASH_CONF=caching:always to run them with the cache."});
  } else if (!injected.empty()) {
    findings->push_back({Level::Note,
                         checkers::kInjection,
                         "a tool is injected into programs: " + injected,
                         ""});
  }
}

// `custash run --check-memory` learns the address of a kernel's fault from the kernel log.
void examine_kernel_log(Findings* findings) {
  const int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (log >= 0) {
    close(log);
    return;
  }
  findings->push_back({Level::Note,
                       "kernel log",
                       "cannot be read: reports of a kernel's fault lack its address",
                       "For --check-memory, allow it: sysctl kernel.dmesg_restrict=0 (root)."});
}

// The mode in square brackets, of one of the kernel's files.
std::string chosen_mode(const char* path) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "";
}

}  // namespace

void examine_environment(Findings* findings) {
  examine_options(findings);
  const std::string preload = environment("LD_PRELOAD");
  if (preload.find("libcustash.so") != std::string::npos) {
    findings->push_back({Level::Note,
                         "LD_PRELOAD",
                         "has custash already: " + preload,
                         "Start programs as usual; custash run is not needed."});
  }
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const bool none = *visible == '\0' || *visible == '-';
    findings->push_back(
        {none ? Level::Problem : Level::Note,
         "CUDA_VISIBLE_DEVICES",
         none ? "hides every device" : std::string("shows ") + visible,
         none ? "Unset it, or name the devices to be used."
              : "Count devices from 0 among these, in options and in the C API."});
  }
  const std::string pipes = environment("CUDA_MPS_PIPE_DIRECTORY");
  const std::string control = (pipes.empty() ? "/tmp/nvidia-mps" : pipes) + "/control";
  if (access(control.c_str(), F_OK) == 0) {
    findings->push_back(
        {Level::Note,
         "MPS",
         "its control daemon is there: processes share a device",
         "Give each process a limit: so that its cache leaves room for others."});
  }
  examine_checkers(findings);
  examine_kernel_log(findings);
}

// Huge pages of shared memory, of which pinned memory is made: by collapsing ranges
// (Linux 6.1), or where the administrator lets shared memory have them.
void examine_system(Findings* findings) {
  utsname system{};
  int major = 0;
  int minor = 0;
  if (uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return;
  const bool collapses = major > 6 || (major == 6 && minor >= 1);
  const std::string mode = chosen_mode("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const bool allowed = !mode.empty() && mode != "never" && mode != "deny";
  const std::string what = std::string("Linux ") + system.release + ", shmem_enabled " +
                           (mode.empty() ? "not told" : mode);
  if (collapses || allowed) {
    findings->push_back({Level::Ok,
                         "huge pages",
                         what + (collapses ? ": custash asks for them" : ": allowed"),
                         ""});
  } else {
    findings->push_back(
        {Level::Warning,
         "huge pages",
         what + ": new pinned memory has pages of 4 KiB, which take longer to pin",
         "Set transparent_hugepage/shmem_enabled to advise, or use Linux 6.1."});
  }
}

}  // namespace custash::doctor
