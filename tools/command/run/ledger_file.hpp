// SPDX-License-Identifier: MIT
// Reads a ledger that a process has left, and makes a snapshot of it. Pure but for the file.
#pragma once

#include "interpose/history/ledger_reading.hpp"
#include "interpose/history/snapshot.hpp"

#include <optional>
#include <string>

namespace custash::run {

// Nothing where the file is no ledger of this version.
std::optional<ledger::Copy> read_ledger(const std::string& path);

// The last complete row; null where there is none.
const ledger::Counters* counters_of(const ledger::Copy& copy);

// `ended_by`: empty where the process has put down its final state.
snapshot::Snapshot snapshot_of(ledger::Copy copy, const std::string& ended_by);

}  // namespace custash::run
