// SPDX-License-Identifier: MIT
#include "interpose/symbols.hpp"

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
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

const std::string& own_module() {
  static const std::string* const path = [] {
    Dl_info info{};
    static const char here = 0;
    return new std::string(
        dladdr(&here, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "");
  }();
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
    Dl_info info{};
    const stacks::Word call = word - 1;  // a return address may lie behind its function
    // NOLINTNEXTLINE: an address of code
    if (dladdr(reinterpret_cast<const void*>(call), &info) != 0 && info.dli_fname != nullptr) {
      frame.module = info.dli_fname;
      frame.offset = call - reinterpret_cast<stacks::Word>(info.dli_fbase);
      frame.name = readable(info.dli_sname);
    } else {
      frame.offset = call;
    }
  }
  frames_.push_back(std::move(frame));
  return it->second;
}

std::vector<Symbols::Id> Symbols::frames_of(const std::vector<stacks::Word>& stack) {
  std::vector<Id> out;
  for (const stacks::Word word : stack)
    out.push_back(frame_of(word));
  out.erase(out.begin(),
            std::find_if(out.begin(), out.end(), [&](Id id) { return !is_ours(frames_[id]); }));
  const auto python =
      std::find_if(out.begin(), out.end(), [&](Id id) { return !frames_[id].file.empty(); });
  if (python != out.end()) {
    const auto machine =
        std::find_if(out.begin(), python, [&](Id id) { return is_interpreter(frames_[id]); });
    out.erase(machine, python);
  }
  return out;
}

std::string Symbols::caller_of(const std::vector<Id>& stack) const {
  for (const Id id : stack) {
    const Frame& frame = frames_[id];
    if (!frame.module.empty() && !is_cuda(frame)) return std::string(file_name(frame.module));
  }
  return "";
}

}  // namespace custash
