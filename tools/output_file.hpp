// SPDX-License-Identifier: MIT
// Where a subcommand writes a file: the one place in the command that opens files for writing.
// "-" and whatever else is standard output are written to as they are, and so are fifos and
// character devices. A regular file is replaced whole, and only where custash wrote the old one
// in the same form, or with --force. No state.
#pragma once

#include "interpose/process/output_kind.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

namespace custash {

namespace output {

// Of a comparison in Markdown. In JSON it names its format.
inline constexpr std::string_view kComparisonMark = "<!-- custash comparison -->";
inline constexpr std::string_view kMetricsMark = "# custash metrics 1\n";
// In the comment of a gzip file, and at the root of the first stack.
inline constexpr std::string_view kProfileMark = "custash profile";
inline constexpr std::string_view kFoldedMark = "custash: ";
inline constexpr std::string_view kPictureMark = "<!-- custash picture -->";

}  // namespace output

struct Output {
  std::string path;
  output::Kind kind = output::Kind::None;
  bool force = false;  // replace a file of any kind
  bool typed = true;   // false: the command made up the name, so a link is not followed
};

// "PATH: why".
struct CannotWrite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Standard output's reader or disk does not take more.
struct OutputRefused : CannotWrite {
  using CannotWrite::CannotWrite;
};

// A file's kind by its first bytes. Recordings may be packed with xz.
output::Kind recognised(std::string_view beginning);

// Whether it is standard output, under "-" or any other name.
bool is_standard_output(const Output& output);

// Throws CannotWrite where write_output() would, as far as is known without writing.
void require_output(const Output& output);

// The same for what another process is to write: a regular file. Its name, links followed.
std::string require_file(const Output& output);

// Throws CannotWrite; the old file is whole then.
void write_output(const Output& output, const std::string& text);

// Moves a finished file to its place. Throws CannotWrite; `from` stays then.
void move_output(const std::string& from, const Output& output);

}  // namespace custash
