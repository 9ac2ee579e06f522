// SPDX-License-Identifier: MIT
// The kinds of files that custash writes, recognised by their first bytes. Pure.
#pragma once

#include <string_view>

namespace custash::output {

enum class Kind {
  None,
  Recording,
  Snapshot,
  Report,
  Pickle,
  TraceEvents,
  Picture,
  Comparison,
  Metrics,
  GuardReport,
  Profile
};

// As many bytes of a file as kind_of() needs.
inline constexpr std::size_t kBeginning = 1024;

// The first line of a recording. Older ones begin with an event.
inline constexpr std::string_view kRecordingMark = "# custash trace 1\n";

// Of what the library writes: a recording, a snapshot, a guard report. None: another file. The
// command knows its own kinds, too (tools/output_file.hpp).
Kind kind_of(std::string_view beginning);

// "a custash recording" …, for messages.
const char* name_of(Kind kind);

}  // namespace custash::output
