// SPDX-License-Identifier: MIT
#include "interpose/observe/snapshot.hpp"

#include "interpose/observe/device_stats.hpp"
#include "interpose/observe/passed.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <time.h>
#include <unistd.h>

namespace custash::snapshot {
namespace {

Nanoseconds clock_now() {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * kSecond + static_cast<Nanoseconds>(now.tv_nsec);
}

std::string with_number(const std::string& path, unsigned long number) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t dot = std::min(path.find('.', name + 1), path.size());
  return path.substr(0, dot) + "." + std::to_string(number) + path.substr(dot);
}

// No user chose this name, so it replaces nothing and follows no link.
bool move_beside_others(const std::string& from, const std::string& path, std::string* wrote) {
  *wrote = path;
  std::string& to = *wrote;
  constexpr unsigned kMost = 1000;  // programs that one process runs by exec
  for (unsigned n = 0; !output::move_to_free(from, to); ++n) {
    if (errno != EEXIST || n == kMost) return false;
    to = with_number(path, static_cast<unsigned long>(getpid()));
    if (n > 0) to = with_number(to, n);
  }
  return true;
}

bool write_beside_others(const std::string& path,
                         const std::string& text,
                         std::string* why,
                         std::string* wrote) {
  const std::string beside = output::write_beside(path, text, why);
  if (beside.empty()) return false;
  if (move_beside_others(beside, path, wrote)) return true;
  *why = std::strerror(errno);
  ::unlink(beside.c_str());
  return false;
}

}  // namespace

std::string command_line() {
  std::string text;
  std::FILE* const file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
    text += c == 0 ? ' ' : static_cast<char>(c);
  std::fclose(file);
  if (!text.empty()) text.pop_back();
  return text;
}

Snapshot take(Allocator& core, history::Events events) {
  Snapshot out;
  out.pid = getpid();
  out.program = command_line();
  out.history = history::read(events);
  const StackOf stacks = stack_of_blocks(out.history);
  int count = 0;
  if (core.driver().device_get_count(&count) != CUDA_SUCCESS) count = 0;
  for (int device = 0; device < count; ++device) {
    Inventory held;
    const custash_device_stats_t stats = events == history::Events::Without
                                             ? device_stats::counters(core, device)
                                             : device_stats::read(core, device, &held);
    out.devices.push_back(device_state(stats, std::move(held), stacks));
  }
  out.host_stats = process::pinned().stats().flatten();
  out.passed = passed::table().read();
  out.time = clock_now();
  Symbols symbols;
  for (const auto& stack : out.history.stacks)
    out.stacks.push_back(symbols.frames_of(stack));
  out.frames = symbols.frames();
  return out;
}

bool format_of(const std::string& path, Format* out) {
  constexpr std::pair<const char*, Format> kEndings[] = {{".trace.json", Format::Trace},
                                                         {".perfetto", Format::Trace},
                                                         {".json", Format::Json},
                                                         {".html", Format::Html},
                                                         {".pickle", Format::Pickle},
                                                         {".pkl", Format::Pickle}};
  for (const auto& [ending, format] : kEndings) {
    const std::size_t size = std::strlen(ending);
    if (path.size() > size && path.compare(path.size() - size, size, ending) == 0) {
      *out = format;
      return true;
    }
  }
  return false;
}

std::string text_of(const Snapshot& snapshot, Format format) {
  switch (format) {
    case Format::Html:
      return as_html(snapshot);
    case Format::Pickle:
      return as_pickle(snapshot);
    case Format::Trace:
      return as_trace(snapshot);
    case Format::Json:
      break;
  }
  return as_json(snapshot);
}

bool write(Allocator& core,
           const std::string& path,
           Existing existing,
           std::string* why,
           std::string* wrote) {
  std::string own;
  Format format = Format::Json;
  if (!format_of(path, &format)) {
    *why = "its ending is none of .html, .json, .pickle, .trace.json";
    return false;
  }
  const std::string text = text_of(take(core), format);
  if (existing == Existing::Keep)
    return write_beside_others(path, text, why, wrote == nullptr ? &own : wrote);
  if (wrote != nullptr) *wrote = path;
  return output::write(
      output::resolved(path), text, output::kind_of(text), output::Replace::Own, why);
}

}  // namespace custash::snapshot
