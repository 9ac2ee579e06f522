// SPDX-License-Identifier: MIT
// A snapshot's JSON in the other forms that a file may have. Pure.
#pragma once

#include "interpose/history/frame.hpp"
#include "interpose/process/snapshot_form.hpp"
#include "tools/command/snapshot/read.hpp"

#include <string>

namespace custash::snapshot {

// A frame as check_snapshot() lets it through.
Frame frame_of(const Json& frame);

struct NamedSnapshot {
  std::string name;  // of its file
  const Json* snapshot = nullptr;
};

// The report, of one file or of two beside each other.
std::string page_of(const NamedSnapshot& file);
std::string page_of(const NamedSnapshot& before, const NamedSnapshot& after);

// "format" comes first: the first bytes of a file show what it is.
std::string json_of(const Json& file);

struct Snapshot;
std::string as_pickle(const Snapshot& snapshot);  // as torch.cuda.memory._dump_snapshot writes
std::string as_trace(const Snapshot& snapshot);   // Chrome's trace events, for Perfetto

// Call sites with their live bytes and all that they allocated: for `go tool pprof`; and their
// live bytes as folded stacks, for flame graphs.
std::string as_pprof(const Json& snapshot);
std::string as_folded(const Json& snapshot);

std::string text_of(const Json& snapshot, Form form);

}  // namespace custash::snapshot
