// SPDX-License-Identifier: MIT
// Random tensor programs: a list of commands that several threads carry out in turn, each on
// streams of its own. Any part of the list is a program as well, so that a failing one can be
// made smaller.
#pragma once

#include "tests/harness/ops.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace custash::harness::stress {

enum class Kind : int {
  Create,   // dst = full or random
  Zip,      // dst = a op b
  InPlace,  // a op= b
  Scalar,   // dst = a op value
  Map,      // dst = relu(a)
  Sum,      // dst = sum(a)
  MatMul,   // dst = a b, as matrices that fit
  Sort,     // dst = sort(a as int32)
  Cast,     // dst = a as type
  Narrow,   // dst = half of a, in a's storage
  Clone,    // dst = copy of a
  Plain,    // dst = copy of a, in memory of cudaMalloc's
  Pinned,   // dst = a by way of pinned memory, which is freed at once
  Host,     // dst = a by way of pageable memory
  Move,     // dst = a on the other device
  Drop,     // a = nothing
  Send,     // a copy of a goes to another thread …
  Receive,  // … and arrives as dst
  Sync,     // the host waits for the device
  Empty,    // empty_cache
};
inline constexpr int kKinds = static_cast<int>(Kind::Empty) + 1;

enum class Wait : int { ForEvent, ForStream, OnHost };

inline constexpr int kSlots = 6;    // tensors of a thread
inline constexpr int kStreams = 3;  // of a thread and device; the first is the default stream
inline constexpr int kMostThreads = 3;

struct Command {
  Kind kind = Kind::Create;
  int thread = 0;
  int stream = 0;
  int device = 0;
  Wait wait = Wait::ForEvent;
  int dst = 0;
  int a = 0;
  int b = 0;
  Binary op = Binary::Add;
  DType type = DType::Float32;
  std::int64_t n = 1;
  std::uint64_t seed = 0;
  double value = 0;
  int letter = 0;
};

struct Program {
  int threads = 1;
  int devices = 1;
  std::vector<Command> commands;
};

Program generate(std::uint64_t seed, int devices);
std::string describe(const Program& program);

}  // namespace custash::harness::stress
