// SPDX-License-Identifier: MIT
// What an entry was called with, byte by byte: written by the driver double, read by the
// program.
#pragma once

#include <string>

namespace forwards {

struct Seen {
  std::string entry;
  std::string arguments;
  int answer = 0;  // what the entry is to return
};

template <typename... Args>
std::string bytes_of(const Args&... args) {
  std::string all;
  (all.append(reinterpret_cast<const char*>(&args), sizeof args), ...);
  return all;
}

}  // namespace forwards
