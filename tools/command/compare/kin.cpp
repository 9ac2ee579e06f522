// SPDX-License-Identifier: MIT
#include "tools/command/compare/child.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::compare {
namespace {

struct Kin {
  pid_t parent = 0;
  pid_t group = 0;
};

// Zeros where there is no such process.
Kin kin_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  Kin kin;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %*c %d %d", &kin.parent, &kin.group) != 2)
    return {};
  return kin;
}

bool has_any() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::vector<pid_t> without(std::vector<pid_t> all, const std::vector<pid_t>& some) {
  std::erase_if(
      all, [&](pid_t each) { return std::find(some.begin(), some.end(), each) != some.end(); });
  return all;
}

}  // namespace

// The program leads a group of its own, to which most of its processes belong even when their
// parent has ended.
bool descends_from(pid_t process, pid_t ancestor) {
  constexpr int kDeepest = 64;
  for (int i = 0; i < kDeepest && process > 1; ++i) {
    const Kin kin = kin_of(process);
    if (process == ancestor || kin.group == ancestor) return true;
    process = kin.parent;
  }
  return false;
}

void reap(pid_t keep) {
  while (true) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
        info.si_pid == keep)
      return;
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

std::vector<pid_t> children() {
  std::vector<pid_t> out;
  reap(0);
  if (!has_any()) return out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process > 0 && kin_of(process).parent == getpid()) out.push_back(process);
  }
  return out;
}

bool has_children(const std::vector<pid_t>& before) {
  return !without(children(), before).empty();
}

void kill_children(const std::vector<pid_t>& before) {
  constexpr int kMost = 200;
  for (int i = 0; i < kMost; ++i) {
    const std::vector<pid_t> found = without(children(), before);
    if (found.empty()) return;
    for (const pid_t each : found)
      kill(each, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace custash::compare
