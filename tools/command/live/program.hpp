// SPDX-License-Identifier: MIT
// What people call a running process: its script, and its rank among those of one launcher.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace custash::live {

struct Program {
  std::string name;
  std::optional<int> rank;
};

// From /proc. `name` is what the process calls itself, for where /proc does not tell.
Program program_of(pid_t process, const std::string& name);

// The script that an interpreter runs, the module behind -m, else the program's own name.
// Nothing of an empty command line.
std::string name_in(const std::vector<std::string>& words);

// `environment`: NAME=VALUE, each ended by a zero byte.
std::optional<int> rank_in(std::string_view environment);

}  // namespace custash::live
