// SPDX-License-Identifier: MIT
// Program: a random CUDA program as data. Every object has a number of its own that is never
// used again, and a command that names an object which is not there does nothing: so any subset
// of the commands is a program too, and a failing one can be shrunk. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace custash::property {

// What a command's numbers mean, for those it has.
enum class Op {
  CreateStream,    // stream; flags: 1 non-blocking, 2 of a green context of its own
  DestroyStream,   // stream
  CreateContext,   // context
  DestroyContext,  // context; a primary one is reset
  EnablePeer,      // context reaches the memory of context `other`
  DisablePeer,     // and does so no more
  EndThread,       // another thread takes its place
  Malloc,          // block, bytes
  Free,            // block
  MallocAsync,     // block, bytes, stream
  FreeAsync,       // block, stream
  RecordStream,    // block, stream
  Kernel,          // stream, uses, needs, sets; flags: 1 may begin early
  CopyToHost,      // block -> host buffer `other`, stream
  CopyFromHost,    // host buffer `other` -> block, stream
  CopyBlock,       // block `other` -> block, stream; flags: 1 by unified addressing
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
  CaptureEnd,      // stream; graph `other`; what it drew in is joined
  StreamWait,      // stream waits for stream `other`, and is drawn into its capture
  Instantiate,     // graph `other`
  Launch,          // graph `other`, stream
  DestroyGraph,    // graph `other`
  DestroyExec,     // graph `other`
  Share,           // block: another process has it open from now on
  Unshare,         // block: and closes it
  Foreign,         // block: the other process, or a network card, writes it
  Leave,           // block: a card, or another interface, is about to use it
  Sleep,           // the process goes to sleep, unless something keeps it awake
  DeepTrim,        // pages that are partly in use become small ones
  HostAlloc,       // block, bytes, flags: here and below a buffer of pinned memory
  HostFree,        // block; other: 1 work of another device may still use it
  HostRelease,     // block: custash_host_free
  HostName,        // block, stream: custash_host_record_stream
  BufferWrite,     // block: by the host
  BufferRead,      // block: by the host
  CopyIn,          // block -> the stream's own device memory
  CopyOut,         // the stream's own device memory -> block
  EndGraph,        // graph `other` and its executable
  Idle,            // the clock goes on by `bytes` seconds
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
// Contexts 0 and 1: the primary ones of devices 0 and 1. Created ones from 2 on, on each in
// turn.
inline constexpr int kFirstContext = 2;

constexpr int device_of(int context) {
  return context % 2;
}

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
  bool pinned = false;  // its memory is pinned, and a captured graph has its executable at once
  bool synced = true;   // each command happens before the next, also across threads
  Bytes memory = 0;     // of each device, for bare as well; 0: more than is wanted
  std::vector<Command> commands = {};
};

// Such commands wait for each other, briefly: none of them may stand still beside others.
constexpr bool steps_of_capture(const Command& command) {
  return command.op == Op::CaptureBegin || command.op == Op::CaptureEnd ||
         command.op == Op::StreamWait || command.op == Op::DestroyStream ||
         command.op == Op::EventWait;
}

std::string to_string(const Command& command);
std::string to_string(const Program& program);

}  // namespace custash::property
