// SPDX-License-Identifier: MIT
// Names in this process, by its loader and its interpreter.
#include "interpose/history/modules.hpp"
#include "interpose/history/python_frames.hpp"
#include "interpose/history/symbols.hpp"

#include <cstdlib>
#include <string_view>

#include <cxxabi.h>
#include <dlfcn.h>

namespace custash {

std::string readable(const char* symbol) {
  if (symbol == nullptr) return "";
  // The demangler would turn a function f into "float".
  if (std::string_view(symbol).substr(0, 2) != "_Z") return symbol;
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

namespace {

const std::string& own_module() {
  static const char here = 0;
  static const auto* const path =
      new std::string(module_place(reinterpret_cast<std::uint64_t>(&here)).path);
  return *path;
}

Frame frame_here(stacks::Word word) {
  Frame frame;
  if ((word & stacks::kPython) != 0) {
    const python_frames::Line line = python_frames::line_of(word);
    frame.name = line.function;
    frame.file = line.file;
    frame.line = line.line;
    return frame;
  }
  const stacks::Word call = word - 1;  // a return address may lie behind its function
  ModulePlace place = module_place(call);
  frame.module = std::move(place.path);
  frame.build_id = std::move(place.build_id);
  frame.offset = place.offset;
  Dl_info info{};
  // NOLINTNEXTLINE: an address of code
  if (dladdr(reinterpret_cast<const void*>(call), &info) != 0)
    frame.name = readable(info.dli_sname);
  return frame;
}

}  // namespace

Symbols symbols_here() {
  return {frame_here, own_module()};
}

}  // namespace custash
