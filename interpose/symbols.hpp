// SPDX-License-Identifier: MIT
// Names for the words of a stack: the module and its symbol for an address, file and line for
// Python. State: what was found already. Not for use under any lock: it takes the loader's.
#pragma once

#include "interpose/stacks.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace custash {

struct Frame {
  std::string module;        // a path; empty for Python
  std::uint64_t offset = 0;  // in the module, of the call
  std::string name;          // of the function, where it is known
  std::string file;          // Python only
  int line = 0;
};

class Symbols {
 public:
  using Id = std::uint32_t;

  // The stack without our own frames, and without the interpreter's where lines of Python
  // follow.
  std::vector<Id> frames_of(const std::vector<stacks::Word>& stack);

  [[nodiscard]] const std::vector<Frame>& frames() const { return frames_; }

  // Where the call came from: the first module that is not CUDA's own; "python" has no say in
  // it.
  [[nodiscard]] std::string caller_of(const std::vector<Id>& stack) const;

 private:
  Id frame_of(stacks::Word word);

  std::unordered_map<stacks::Word, Id> known_;
  std::vector<Frame> frames_;
};

}  // namespace custash
