// SPDX-License-Identifier: MIT
#include "interpose/history/symbols.hpp"

#include <algorithm>
#include <string_view>

namespace custash {
namespace {

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// If custash is linked into a program, frames of the program's module count as ours.
bool is_ours(const Frame& frame, const std::string& own_module) {
  return frame.module == own_module && is_own_function(frame.name);
}

// Without names the file decides.
bool is_interpreter(const Frame& frame) {
  const std::string_view file = file_name(frame.module);
  if (frame.name.empty()) return begins(file, "libpython") || begins(file, "python");
  return begins(frame.name, "_PyEval_EvalFrame") || begins(frame.name, "PyEval_EvalFrame");
}

bool is_cuda(const Frame& frame) {
  const std::string_view name = file_name(frame.module);
  return begins(name, "libcudart") || begins(name, "libcuda.so") || begins(name, "libcustash");
}

}  // namespace

Symbols::Id Symbols::frame_of(stacks::Word word) {
  const auto [it, fresh] = known_.try_emplace(word, static_cast<Id>(frames_.size()));
  if (!fresh) return it->second;
  frames_.push_back(resolve_(word));
  return it->second;
}

std::vector<Symbols::Id> Symbols::frames_of(const std::vector<stacks::Word>& stack) {
  std::vector<Id> out;
  for (const stacks::Word word : stack)
    out.push_back(frame_of(word));
  out.erase(out.begin(), std::find_if(out.begin(), out.end(), [&](Id id) {
              return !is_ours(frames_[id], own_module_) && !is_cuda(frames_[id]);
            }));
  auto python =
      std::find_if(out.begin(), out.end(), [&](Id id) { return !frames_[id].file.empty(); });
  auto start = std::find_if(
      out.begin(), python, [&](Id id) { return is_start_of_program(frames_[id].name); });
  if (start != python) {
    // libc's frame before it has no exported name.
    if (start != out.begin() && frames_[start[-1]].module == frames_[*start].module) --start;
    python = out.erase(start, python);
  }
  if (python != out.end()) {
    const auto machine =
        std::find_if(out.begin(), python, [&](Id id) { return is_interpreter(frames_[id]); });
    out.erase(machine, python);
  }
  return out;
}

std::string Symbols::runtime_call(const std::vector<stacks::Word>& stack) {
  std::string out;
  for (const stacks::Word word : stack) {
    const Frame& frame = frames_[frame_of(word)];
    if (!is_ours(frame, own_module_) && !is_cuda(frame)) break;
    if (begins(frame.name, "cuda")) out = frame.name;
  }
  return out;
}

// A template's name begins with what it returns.
bool is_own_function(std::string_view name) {
  if (begins(name, "custash_")) return true;
  const std::size_t end = name.find_first_of("(<");
  const std::size_t at = name.substr(0, end).rfind(' ');
  return begins(name.substr(at == std::string_view::npos ? 0 : at + 1), "custash::");
}

bool is_start_of_program(std::string_view name) {
  return begins(name, "__libc_start_");
}

std::string caller_of(const std::vector<Frame>& frames, const std::vector<Symbols::Id>& stack) {
  for (const Symbols::Id id : stack)
    if (!frames[id].module.empty()) return std::string(file_name(frames[id].module));
  return "";
}

}  // namespace custash
