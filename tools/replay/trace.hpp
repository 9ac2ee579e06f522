// SPDX-License-Identifier: MIT
// A trace: what a program allocated and freed, in order (docs/trace-format.md). Reading one
// checks it whole, so that a replay need not. Values only.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace custash::replay {

enum class Kind : std::uint8_t { Alloc, Free, PinnedAlloc, PinnedFree };

inline constexpr bool is_alloc(Kind kind) {
  return kind == Kind::Alloc || kind == Kind::PinnedAlloc;
}

inline constexpr bool is_pinned(Kind kind) {
  return kind == Kind::PinnedAlloc || kind == Kind::PinnedFree;
}

inline constexpr std::uint32_t kNoStream = 0;

struct Event {
  Nanoseconds time = 0;
  Bytes bytes = 0;
  std::uint32_t slot = 0;    // the allocation; numbers of freed ones are used again
  std::uint32_t stream = 0;  // kNoStream, or its number in the trace, from 1
  Kind kind = Kind::Alloc;
};

struct Trace {
  std::string name;
  std::vector<Event> events;
  std::uint32_t slots = 0;    // slot numbers are below it
  std::uint32_t streams = 0;  // stream numbers are up to it
  Bytes peak = 0;             // the most bytes asked for and not freed
  Bytes pinned_peak = 0;
};

// What is wrong with a file, with its name and, where there is one, the line: "FILE:LINE: why".
struct BadTrace : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A trace as text, or a PyTorch snapshot (pickle); either may be .xz. Throws BadTrace, also
// where there is no event in it.
Trace read_trace(const std::string& path);

// The text form. `name` is what complaints call it.
Trace parse_trace(const std::string& name, std::string_view text);

// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot).
[[nodiscard]] bool looks_like_pickle(std::string_view bytes);

// The events of the device that has most of them; blocks that were there before recording began
// are allocated first. Throws BadTrace, also for pickles that would run code.
Trace parse_snapshot(const std::string& name, std::string_view bytes);

// ---- A whole file in memory, unpacked where it is .xz (recognised by its first bytes):
// file.cpp.

// Throws BadTrace when it cannot be read, is damaged, or unpacks to more than is sane.
std::string read_file(const std::string& path);

// What read_file makes of bytes that are there already; `name` is for complaints.
std::string unpack(const std::string& name, std::string bytes);

// What a file is that holds neither a trace nor a snapshot, by its first bytes: "an ELF program
// or library". Empty if they say nothing.
std::string_view known_format(std::string_view bytes);

// The .xz form of a text.
std::string pack(const std::string& text);

}  // namespace custash::replay
