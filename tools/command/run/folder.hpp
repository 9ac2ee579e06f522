// SPDX-License-Identifier: MIT
// Folder: where the processes of one `custash run` put their ledgers, in memory where there is
// a /dev/shm. Only this user may open it. Its name identifies its owner: those of launchers
// that have gone are removed by the next one.
#pragma once

#include "interpose/history/ledger_reading.hpp"
#include "interpose/history/snapshot.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace custash::run {

struct LedgerName {
  std::string path;
  pid_t process = 0;
  int program = 0;     // of that process, counted from 0
  std::string ending;  // ".done", ".own" or none
};

class Folder {
 public:
  Folder();   // throws where none can be made
  ~Folder();  // removes it
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] std::vector<LedgerName> ledgers() const;

  // Whether a launcher inside this one has made a folder of its own, which has the reports
  // then.
  [[nodiscard]] bool has_inner() const;

  // Of all files in it.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::string path_;
};

// Folders that launchers have left behind when they were killed.
void remove_stale_folders();

// ---- A ledger that a process has left, and a snapshot of it: ledger_file.cpp.

// Nothing where the file is no ledger of this version.
std::optional<ledger::Copy> read_ledger(const std::string& path);

std::string text_of(const ledger::Copy& copy, ledger::TextPlace place);

// The last complete row; null where there is none.
const ledger::Counters* counters_of(const ledger::Copy& copy);

// `ended_by`: empty where the process has put down its final state.
snapshot::Snapshot snapshot_of(ledger::Copy copy, const std::string& ended_by);

}  // namespace custash::run
