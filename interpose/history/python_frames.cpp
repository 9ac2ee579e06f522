// SPDX-License-Identifier: MIT
#include "interpose/history/python_frames.hpp"

#include "interpose/history/python_readers.hpp"
#include "interpose/history/stacks.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <deque>
#include <unordered_map>

namespace custash::python_frames {
namespace {

using python::Interpreter;
using python::Object;

struct Code {
  std::string file;
  std::string function;
};

struct Names {
  // For readers; writers hold the interpreter's lock as well.
  RankedMutex mutex{HookRank::PythonNames};
  std::unordered_map<const Object*, std::uint32_t> numbers GUARDED_BY(mutex);
  std::deque<Code> codes GUARDED_BY(mutex);
};

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
  static auto* const all = new Names;
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

// The first reference is kept, so that the address remains this code object's.
std::uint32_t number_of(const Interpreter& python, Object* code) {
  Names& all = names();
  {
    const RankedLock guard(all.mutex);
    if (const auto known = all.numbers.find(code); known != all.numbers.end()) {
      python.drop(code);
      return known->second;
    }
  }
  Code read{text_of(python, code, "co_filename"), text_of(python, code, "co_name")};
  const RankedLock guard(all.mutex);
  all.codes.push_back(std::move(read));
  const auto number = static_cast<std::uint32_t>(all.codes.size() - 1);
  all.numbers.emplace(code, number);
  return number;
}

std::uint64_t word_of(const Interpreter& python, Object* frame, python::Lesson& lesson) {
  const auto line = static_cast<std::uint32_t>(python.line(frame));
  Object* const code = python.code(frame);  // the frame keeps it
  const std::uint64_t word =
      stacks::kPython | (std::uint64_t{number_of(python, code)} << kLineBits) | line;
  lesson.learn(python, frame, code, word);
  return word;
}

// Owns `frame`, which is `thread`'s.
unsigned walk(const Interpreter& python,
              const python::Thread* thread,
              Object* frame,
              std::uint64_t* out,
              unsigned most) {
  python::Lesson lesson(python, thread);
  unsigned size = 0;
  while (frame != nullptr && size < most) {
    out[size++] = word_of(python, frame, lesson);
    Object* const back = python.back(frame);
    python.drop(frame);
    frame = back;
  }
  if (frame != nullptr) python.drop(frame);
  return size;
}

}  // namespace

unsigned capture(std::uint64_t* out, unsigned most) noexcept {
  try {
    const Interpreter* const python = interpreter();
    if (python == nullptr || python->is_initialized() == 0) return 0;
    python::Thread* const self = python->this_thread();
    const unsigned known = python::own_frames(self, out, most);
    if (known != python::kUnknown) return known;
    // Another interpreter's; in Python 3.11 perhaps only another thread's.
    python::Thread* const current = python->current();
    if (current != nullptr && current != self) return 0;
    if (current == nullptr) return python::ask(*python, walk, out, most);
    if (python->error() != nullptr) return 0;  // not to be touched
    Object* const frame = python->frame();
    if (frame == nullptr) return 0;
    python->keep(frame);
    return walk(*python, self, frame, out, most);
  } catch (...) {
    return 0;
  }
}

Line line_of(std::uint64_t word) {
  Names& all = names();
  const RankedLock guard(all.mutex);
  const std::uint64_t code = code_of(word);
  if (code >= all.codes.size()) return {};
  return {all.codes[code].file, all.codes[code].function, static_cast<int>(word & 0xffffffffU)};
}

std::vector<Line> codes_from(std::size_t number) {
  std::vector<Line> out;
  Names& all = names();
  const RankedLock guard(all.mutex);
  for (; number < all.codes.size(); ++number)
    out.push_back({all.codes[number].file, all.codes[number].function, 0});
  return out;
}

}  // namespace custash::python_frames
