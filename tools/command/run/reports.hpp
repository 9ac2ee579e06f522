// SPDX-License-Identifier: MIT
// What `custash run` reports when the program has ended: of each process that used CUDA, from
// the ledger that it has left. Each success is one line.
#pragma once

#include "tools/command/run/folder.hpp"
#include "tools/command/run/supervise.hpp"
#include "tools/command/snapshot/suppressions.hpp"

#include <string>

namespace custash::run {

struct Wanted {
  std::string history;  // a path that require_file() gave; empty: none
  bool force = false;   // replace what custash did not write
  bool leaks = false;
  bool summary = false;
  bool memory = false;  // findings of the checkers
  bool streams = false;
  std::string json;     // the file of their report; empty: none
  std::string program;  // as it was typed
  std::string off;      // the option that switches custash off; empty: none
  snapshot::Suppressions suppressions;

  [[nodiscard]] bool checks() const { return memory || streams; }

  [[nodiscard]] bool any() const { return !history.empty() || leaks || summary || checks(); }
};

struct Outcome {
  bool used_cuda = false;  // by a process
  bool passed = true;      // everything requested was checked, and nothing was found
};

Outcome report(const Folder& folder, const Wanted& wanted, const Ended& ended);

}  // namespace custash::run
