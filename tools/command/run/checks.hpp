// SPDX-License-Identifier: MIT
// Checks: what the checkers have found in the processes of one run. Prints each process's
// findings with names, and one closing line for all. State: sums of the processes so far.
#pragma once

#include "interpose/check/checked.hpp"
#include "interpose/history/ledger_reading.hpp"
#include "tools/command/run/reports.hpp"

#include <string>

namespace custash::run {

class Checks {
 public:
  explicit Checks(const Wanted& wanted);

  // Of a process that has ended.
  void add(const ledger::Copy& copy);
  // Of one that reports itself.
  void leave_out(pid_t process);

  // False where something was found, or nothing was checked.
  bool close(const Ended& ended);

 private:
  const Wanted& wanted_;
  guards::Checked all_;
  bool written_ = false;  // a process has written the file
};

}  // namespace custash::run
