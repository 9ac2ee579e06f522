// SPDX-License-Identifier: MIT
#include "tools/output_file.hpp"

#include "interpose/process/output_file.hpp"
#include "interpose/process/output_text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {
namespace {

using output::Kind;
using output::Replace;

[[noreturn]] void fail(const Output& output, const std::string& why) {
  throw CannotWrite(output.path + ": " + why);
}

Replace replace_of(const Output& output) {
  return output.force ? Replace::Any : Replace::Own;
}

std::string unpacked(std::string_view beginning) {
  constexpr std::uint64_t kMostMemory = std::uint64_t{128} << 20U;
  lzma_stream stream = LZMA_STREAM_INIT;
  std::string out(output::kBeginning, '\0');
  stream.next_in = reinterpret_cast<const std::uint8_t*>(beginning.data());
  stream.avail_in = beginning.size();
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = out.size();
  const bool ok = lzma_stream_decoder(&stream, kMostMemory, 0) == LZMA_OK &&
                  lzma_code(&stream, LZMA_RUN) <= LZMA_STREAM_END;
  out.resize(ok ? out.size() - stream.avail_out : 0);
  lzma_end(&stream);
  return out;
}

// What the command alone writes. PyTorch's own pickles are None.
Kind kind_of_text(std::string_view beginning) {
  // Our writer's opcodes: CPython's pickler frames a protocol 4 pickle and has shorter strings.
  constexpr char kPickle[] = "\x80\x04}(X\x08\0\0\0segments\x94](";
  const std::string_view text = beginning.substr(0, output::kBeginning);
  const auto has = [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (text.starts_with({kPickle, sizeof kPickle - 1})) return Kind::Pickle;
  if (text.starts_with("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[") && has("\"custash: "))
    return Kind::TraceEvents;
  if (text.starts_with("<!DOCTYPE html>") &&
      has("<meta name=\"generator\" content=\"custash\">"))
    return Kind::Report;
  if (text.starts_with("<svg ") && has(output::kPictureMark)) return Kind::Picture;
  if (text.starts_with(output::kComparisonMark) ||
      text.starts_with("{\n \"format\": \"custash comparison 1\""))
    return Kind::Comparison;
  if (text.starts_with(output::kFoldedMark) ||
      (text.starts_with("\x1f\x8b") && has(output::kProfileMark)))
    return Kind::Profile;
  return text.starts_with(output::kMetricsMark) ? Kind::Metrics : output::kind_of(text);
}

// The regular file that is to be there.
std::string place_of(const Output& output) {
  return output.typed ? output::resolved(output.path) : output.path;
}

std::string with_advice(const Output& output, const std::string& why) {
  const bool is_foreign = why.rfind("exists", 0) == 0;
  return is_foreign && !output.force ? why + "; --force replaces it" : why;
}

void require_regular(const Output& output) {
  const std::string place = place_of(output);
  const std::string why = output::objection(place, output.kind, replace_of(output), recognised);
  if (!why.empty()) fail(output, with_advice(output, why));
  // Only a file that is made there shows that one can be.
  std::string failure;
  const std::string beside = output::write_beside(place, "", &failure);
  if (beside.empty()) fail(output, failure);
  unlink(beside.c_str());
}

// A fifo, a device: what a typed path leads to is written to, never replaced.
bool is_special(const Output& output) {
  struct stat info {};

  if (!output.typed || stat(output.path.c_str(), &info) != 0 || S_ISREG(info.st_mode) ||
      S_ISDIR(info.st_mode))
    return false;
  if (S_ISBLK(info.st_mode)) fail(output, "is a disk");
  return true;
}

// Does not wait for a fifo's reader.
int open_special(const Output& output) {
  const int file = open(output.path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && errno == ENXIO) fail(output, "no process reads from it");
  if (file < 0) fail(output, std::strerror(errno));

  struct stat info {};

  // Its name was a fifo's a moment ago: a regular file is replaced whole or not at all.
  if (fstat(file, &info) != 0 || S_ISREG(info.st_mode)) fail(output, "is a file by now");
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

}  // namespace

output::Kind recognised(std::string_view beginning) {
  constexpr std::string_view kXz(
      "\xfd"
      "7zXZ");
  if (beginning.substr(0, kXz.size()) != kXz) return kind_of_text(beginning);
  return output::kind_of(unpacked(beginning)) == Kind::Recording ? Kind::Recording : Kind::None;
}

bool is_standard_output(const Output& output) {
  struct stat named {};

  struct stat out {};

  if (!output.typed) return false;
  return output.path == "-" ||
         (stat(output.path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
          named.st_dev == out.st_dev && named.st_ino == out.st_ino);
}

void require_output(const Output& output) {
  // A fifo is not opened before it is written to: its reader would see the end.
  if (!is_standard_output(output) && !is_special(output)) require_regular(output);
}

std::string require_file(const Output& output) {
  if (output.path == "-") fail(output, "standard output is the program's; name a file");
  if (is_special(output)) fail(output, "is not a regular file");
  require_regular(output);
  return place_of(output);
}

void write_output(const Output& output, const std::string& text) {
  const bool to_standard_output = is_standard_output(output);
  if (to_standard_output || is_special(output)) {
    const int file = to_standard_output ? STDOUT_FILENO : open_special(output);
    const bool wrote = std::fflush(stdout) == 0 && output::write_all(file, text);
    if (!wrote && to_standard_output)
      throw OutputRefused(std::string("standard output cannot be written: ") +
                          std::strerror(errno));
    if (!wrote) fail(output, std::strerror(errno));
    if (!to_standard_output) close(file);
    return;
  }
  std::string why;
  if (!output::write(place_of(output), text, output.kind, replace_of(output), &why, recognised))
    fail(output, with_advice(output, why));
}

void move_output(const std::string& from, const Output& output) {
  std::string why;
  if (!output::move(from, place_of(output), output.kind, replace_of(output), &why, recognised))
    fail(output, with_advice(output, why));
}

}  // namespace custash
