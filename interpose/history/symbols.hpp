// SPDX-License-Identifier: MIT
// Names for the words of a stack: module and exported symbol of an address, file and line of
// Python. State: names found before. Not to be used under any lock, because it takes the
// loader's.
#pragma once

#include "interpose/history/frame.hpp"
#include "interpose/history/stacks.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash {

class Symbols {
 public:
  using Id = std::uint32_t;
  using Resolve = std::function<Frame(stacks::Word)>;

  // For any process. `own_module`: the program's, where custash is linked into it.
  Symbols(Resolve resolve, std::string own_module)
      : resolve_(std::move(resolve)), own_module_(std::move(own_module)) {}

  // The stack without the innermost frames that are CUDA's or our own, and without the
  // interpreter's where lines of Python follow.
  std::vector<Id> frames_of(const std::vector<stacks::Word>& stack);

  // The runtime's function that the program has called; empty where it called the driver's, or
  // where the runtime's functions have no names.
  std::string runtime_call(const std::vector<stacks::Word>& stack);

  [[nodiscard]] const std::vector<Frame>& frames() const { return frames_; }

 private:
  Id frame_of(stacks::Word word);

  Resolve resolve_;
  std::string own_module_;
  std::unordered_map<stacks::Word, Id> known_;
  std::vector<Frame> frames_;
};

// For this process.
Symbols symbols_here();

// A function of custash's own, linked into the program.
bool is_own_function(std::string_view name);

// One of libc's that call main().
bool is_start_of_program(std::string_view name);

// A function's name as it is written, from the linker's.
std::string readable(const char* symbol);

// The calling library: the file of the first frame that has one. Python's own file is skipped.
std::string caller_of(const std::vector<Frame>& frames, const std::vector<Symbols::Id>& stack);

}  // namespace custash
