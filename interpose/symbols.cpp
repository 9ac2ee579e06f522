// SPDX-License-Identifier: MIT
#include "interpose/symbols.hpp"

#include "interpose/modules.hpp"
#include "interpose/python_frames.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <cxxabi.h>
#include <dlfcn.h>

namespace custash {
namespace {

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string readable(const char* symbol) {
  if (symbol == nullptr) return "";
  if (!begins(symbol, "_Z")) return symbol;  // of a function f the demangler makes "float"
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

const std::string& own_module() {
  static const char here = 0;
  static const auto* const path =
      new std::string(module_place(reinterpret_cast<std::uint64_t>(&here)).path);
  return *path;
}

// Of the preloaded library; in a program that we are linked into, its module is ours, too.
bool is_ours(const Frame& frame) {
  return frame.module == own_module() &&
         (begins(file_name(frame.module), "libcustash") || begins(frame.name, "custash"));
}

bool is_interpreter(const Frame& frame) {
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
  Frame frame;
  if ((word & stacks::kPython) != 0) {
    const python_frames::Line line = python_frames::line_of(word);
    frame.name = line.function;
    frame.file = line.file;
    frame.line = line.line;
  } else {
    const stacks::Word call = word - 1;  // a return address may lie behind its function
    ModulePlace place = module_place(call);
    frame.module = std::move(place.path);
    frame.build_id = std::move(place.build_id);
    frame.offset = place.offset;
    Dl_info info{};
    // NOLINTNEXTLINE: an address of code
    if (dladdr(reinterpret_cast<const void*>(call), &info) != 0) frame.name = readable(info.dli_sname);
  }
  frames_.push_back(std::move(frame));
  return it->second;
}

std::vector<Symbols::Id> Symbols::frames_of(const std::vector<stacks::Word>& stack) {
  std::vector<Id> out;
  for (const stacks::Word word : stack)
    out.push_back(frame_of(word));
  out.erase(out.begin(), std::find_if(out.begin(), out.end(), [&](Id id) {
              return !is_ours(frames_[id]) && !is_cuda(frames_[id]);
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
