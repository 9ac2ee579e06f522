// SPDX-License-Identifier: MIT
#include "tests/harness/need.hpp"

#include <array>
#include <cstdio>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::harness {
namespace {

// Beside this program.
std::string child_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), static_cast<std::size_t>(length > 0 ? length : 0));
  return self.substr(0, self.rfind('/') + 1) + "harness_child";
}

}  // namespace

Finished run_child(const std::string& role, const std::string& environment) {
  const std::string command = environment + " '" + child_path() + "' " + role + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Finished done;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr)
    done.output += part.data();
  const int status = pclose(pipe);
  done.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return done;
}

}  // namespace custash::harness
