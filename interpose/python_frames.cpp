// SPDX-License-Identifier: MIT
#include "interpose/python_frames.hpp"

#include <dlfcn.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "interpose/stacks.hpp"

namespace custash::python_frames {
namespace {

struct Object;

// Python's functions, as the process has them (3.9 on). No header of Python is needed.
struct Interpreter {
  int (*holds_lock)() = nullptr;
  Object* (*frame)() = nullptr;  // borrowed, as the thread holds the lock
  Object* (*back)(Object*) = nullptr;
  Object* (*code)(Object*) = nullptr;
  int (*line)(Object*) = nullptr;
  Object* (*attribute)(Object*, const char*) = nullptr;
  const char* (*text)(Object*) = nullptr;
  void (*drop)(Object*) = nullptr;
  void (*clear_error)() = nullptr;
  Object* (*error)() = nullptr;

  template <typename Function>
  static bool find(Function* slot, const char* name) {
    *slot = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return *slot != nullptr;
  }

  bool find_all() {
    return find(&holds_lock, "PyGILState_Check") && find(&frame, "PyEval_GetFrame") &&
           find(&back, "PyFrame_GetBack") && find(&code, "PyFrame_GetCode") &&
           find(&line, "PyFrame_GetLineNumber") && find(&attribute, "PyObject_GetAttrString") &&
           find(&text, "PyUnicode_AsUTF8") && find(&drop, "Py_DecRef") &&
           find(&clear_error, "PyErr_Clear") && find(&error, "PyErr_Occurred");
  }
};

struct Code {
  std::string file;
  std::string function;
};

struct Names {
  std::mutex mutex;  // for readers; writers hold the interpreter's lock as well
  std::unordered_map<const Object*, std::uint32_t> numbers;
  std::deque<Code> codes;
};

constexpr unsigned kLineBits = 32;

const Interpreter* interpreter() {
  static const Interpreter* const found = []() -> const Interpreter* {
    auto* const all = new Interpreter;
    if (all->find_all()) return all;
    delete all;
    return nullptr;
  }();
  return found;
}

Names& names() {
  static Names* const all = new Names;
  return *all;
}

std::string text_of(const Interpreter& python, Object* code, const char* attribute) {
  Object* const value = python.attribute(code, attribute);
  const char* const text = value == nullptr ? nullptr : python.text(value);
  std::string out = text == nullptr ? "?" : text;
  if (text == nullptr) python.clear_error();
  if (value != nullptr) python.drop(value);
  return out;
}

// The reference of the first sight is kept, so that the address stays this code's.
std::uint32_t number_of(const Interpreter& python, Object* code) {
  Names& all = names();
  {
    const std::lock_guard guard(all.mutex);
    if (const auto known = all.numbers.find(code); known != all.numbers.end()) {
      python.drop(code);
      return known->second;
    }
  }
  Code read{text_of(python, code, "co_filename"), text_of(python, code, "co_name")};
  const std::lock_guard guard(all.mutex);
  all.codes.push_back(std::move(read));
  const auto number = static_cast<std::uint32_t>(all.codes.size() - 1);
  all.numbers.emplace(code, number);
  return number;
}

}  // namespace

unsigned take(std::uint64_t* out, unsigned most) noexcept {
  try {
    const Interpreter* const python = interpreter();
    if (python == nullptr || python->holds_lock() == 0 || python->error() != nullptr) return 0;
    unsigned size = 0;
    Object* frame = python->frame();
    bool borrowed = true;
    while (frame != nullptr && size < most) {
      const auto line = static_cast<std::uint32_t>(python->line(frame));
      const std::uint32_t code = number_of(*python, python->code(frame));
      out[size++] = stacks::kPython | (std::uint64_t{code} << kLineBits) | line;
      Object* const back = python->back(frame);
      if (!borrowed) python->drop(frame);
      frame = back;
      borrowed = false;
    }
    if (frame != nullptr && !borrowed) python->drop(frame);
    return size;
  } catch (...) {
    return 0;
  }
}

Line line_of(std::uint64_t word) {
  Names& all = names();
  const std::lock_guard guard(all.mutex);
  const std::uint64_t code = (word & ~stacks::kPython) >> kLineBits;
  if (code >= all.codes.size()) return {};
  return {all.codes[code].file, all.codes[code].function, static_cast<int>(word & 0xffffffffU)};
}

}  // namespace custash::python_frames
