// SPDX-License-Identifier: MIT
// Program: a random CUDA program as data. Every object has a number of its own that is never
// used again, and a command that names an object which is not there does nothing: so any subset
// of the commands is a program too, and a failing one can be shrunk. Pure.
#pragma once

#include "allocator/units.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace custash::property {

// What a command's numbers mean, for those it has.
enum class Op {
  CreateStream,    // stream; flags: 1 non-blocking
  DestroyStream,   // stream
  CreateContext,   // context
  DestroyContext,  // context
  Malloc,          // block, bytes
  Free,            // block
  MallocAsync,     // block, bytes, stream
  FreeAsync,       // block, stream
  RecordStream,    // block, stream
  Kernel,          // stream, uses, needs, sets
  CopyToHost,      // block -> host buffer `other`, stream
  CopyFromHost,    // host buffer `other` -> block, stream
  CopyBlock,       // block `other` -> block, stream
  Memset,          // block, stream
  HostFunction,    // stream
  HostRead,        // host buffer `other`
  EventRecord,     // event `other`, stream
  EventWait,       // event `other`, stream
  EventSync,       // event `other`
  StreamSync,      // stream
  ContextSync,     // context
  EmptyCache,      // context
  CaptureBegin,    // stream; flags: 1 relaxed, else global
  CaptureEnd,      // stream; graph `other`
  Instantiate,     // graph `other`
  Launch,          // graph `other`, stream
  DestroyGraph,    // graph `other`
  DestroyExec,     // graph `other`
  Step,            // the device runs `bytes` operations
};

struct Use {
  int block = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
  bool write = false;
};

// Streams 0 and 1: the legacy one, by its two names; 2: the thread's own. Created ones from 3
// on.
inline constexpr int kLegacyNull = 0, kLegacy = 1, kPerThread = 2, kFirstStream = 3;
// Contexts 0 and 1: the primary ones of devices 0 and 1. Created ones (on device 0) from 2 on.
inline constexpr int kFirstContext = 2;
inline constexpr int kHostBuffers = 4;
inline constexpr Bytes kHostBufferBytes = 4096;

struct Command {
  Op op = Op::Step;
  int thread = 0;
  int context = 0;
  int stream = 0;
  int block = 0;
  int other = 0;
  int flags = 0;
  Bytes bytes = 0;
  int needs = 0;
  int sets = 0;
  // While this command stands before its entry-th driver call, up to `nested` of the commands
  // after it run, those of other threads only. 0: none.
  int entry = 0;
  int nested = 0;
  std::vector<Use> uses = {};
};

struct Program {
  std::uint64_t seed = 0;
  int threads = 1;
  bool synced = true;  // each command happens before the next, also across threads
  std::vector<Command> commands = {};
};

// Such commands wait for each other, briefly: none of them may stand still beside others.
template <typename Command>
bool steps_of_capture(const Command& command) {
  using Op = decltype(command.op);
  return command.op == Op::CaptureBegin || command.op == Op::CaptureEnd ||
         command.op == Op::DestroyStream || command.op == Op::EventWait;
}

std::string to_string(const Command& command);
std::string to_string(const Program& program);

}  // namespace custash::property
