// SPDX-License-Identifier: MIT
// What `custash run` reports when the program has ended: of each process that used CUDA, from
// the ledger that it has left. Each success is told in one line.
#pragma once

#include "tools/command/run/folder.hpp"
#include "tools/command/run/supervise.hpp"

#include <string>

namespace custash::run {

struct Wanted {
  std::string history;  // a path that require_file() gave; empty: none
  bool force = false;   // replace what custash did not write
  bool leaks = false;
  bool summary = false;

  [[nodiscard]] bool any() const { return !history.empty() || leaks || summary; }
};

// True where a process used CUDA.
bool report(const Folder& folder, const Wanted& wanted, const Ended& ended);

}  // namespace custash::run
