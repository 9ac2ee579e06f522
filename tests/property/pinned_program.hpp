// SPDX-License-Identifier: MIT
// PinnedProgram: a random program with pinned memory as data. Made like program.hpp's: numbers
// are never used again, and a command that names what is not there does nothing, so that any
// subset of the commands is a program too. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace custash::property {

// What a command's numbers mean, for those it has.
enum class PinOp {
  CreateStream,   // stream; flags: 1 non-blocking
  DestroyStream,  // stream
  CreateContext,  // context
  EndContext,     // context: destroyed, or reset where it is a primary one
  Alloc,          // buffer, bytes, flags
  Free,           // buffer; other: 1 work of another device may still use it
  Release,        // buffer: custash_host_free
  Name,           // buffer, stream: custash_host_record_stream
  HostWrite,      // buffer
  HostRead,       // buffer
  CopyIn,         // buffer -> the stream's own device memory
  CopyOut,        // the stream's own device memory -> buffer
  Kernel,         // buffer (read; flags: 1 written), stream, needs, sets
  EventRecord,    // event `other`, stream
  EventWait,      // event `other`, stream
  StreamSync,     // stream
  ContextSync,    //
  Empty,          // custash_host_empty_cache
  CaptureBegin,   // stream; flags: 1 relaxed, else global
  CaptureEnd,     // stream; graph `other`, with an executable
  Launch,         // graph `other`, stream
  EndGraph,       // graph `other`
  Idle,           // the clock goes on by `bytes` seconds
  Step,           // the device runs `bytes` operations
};

struct PinCommand {
  PinOp op = PinOp::Step;
  int thread = 0;
  int context = 0;
  int stream = 0;  // as in program.hpp
  int buffer = -1;
  int other = 0;
  unsigned flags = 0;
  Bytes bytes = 0;
  int needs = 0;
  int sets = 0;
  int entry = 0;   // while it stands before its entry-th driver call …
  int nested = 0;  // … up to so many commands of other threads after it run
};

struct PinProgram {
  std::uint64_t seed = 0;
  int threads = 1;
  bool synced = true;
  std::vector<PinCommand> commands = {};
};

std::string to_string(const PinCommand& command);
std::string to_string(const PinProgram& program);

PinProgram generate_pinned(std::uint64_t seed);

}  // namespace custash::property
