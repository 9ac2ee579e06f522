// SPDX-License-Identifier: MIT
#include "interpose/observe/symbols.hpp"

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

// Where custash is linked into a program, frames of the program's module count as ours.
bool is_ours(const Frame& frame, const std::string& own_module) {
  return frame.module == own_module && begins(frame.name, "custash");
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
  const auto python =
      std::find_if(out.begin(), out.end(), [&](Id id) { return !frames_[id].file.empty(); });
  if (python != out.end()) {
    const auto machine =
        std::find_if(out.begin(), python, [&](Id id) { return is_interpreter(frames_[id]); });
    out.erase(machine, python);
  }
  return out;
}

std::string caller_of(const std::vector<Frame>& frames, const std::vector<Symbols::Id>& stack) {
  for (const Symbols::Id id : stack)
    if (!frames[id].module.empty()) return std::string(file_name(frames[id].module));
  return "";
}

}  // namespace custash
