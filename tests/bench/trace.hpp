// SPDX-License-Identifier: MIT
// The device events of a trace (docs/trace-format.md). Plain text only: packed ones are
// unpacked by who starts the program.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

// The first event of a block allocates it, the second frees it.
struct Event {
  std::size_t block;
  std::size_t bytes;
  std::size_t stream;
};

struct Trace {
  std::string name;
  std::vector<Event> events;
  std::size_t blocks = 0;
  std::size_t streams = 1;  // stream 0 stands for calls that name none
};

// What the trace leaves allocated is freed at its end. A file that cannot be read is empty.
Trace read_trace(const std::string& path);

}  // namespace bench
