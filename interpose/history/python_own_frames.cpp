// SPDX-License-Identifier: MIT
#include "interpose/history/python_readers.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include <sched.h>

namespace custash::python {
namespace {

// Where CPython keeps what is read here, in bytes (pycore_frame.h, pystate.h, code.h).
struct Layout {
  unsigned long version = 0;  // as in Py_Version, the upper two bytes
  std::size_t frame = 0;      // in a thread state: the innermost frame, or where that stands
  bool indirect = false;
  std::size_t frame_there = 0;
  std::size_t code = 0;  // in a frame
  std::size_t previous = 0;
  std::size_t instruction = 0;
  std::size_t owner = 0;
  std::size_t instructions = 0;  // in a code object
};

constexpr std::array<Layout, 3> kLayouts{{
    {0x030b, 56, true, 8, 32, 48, 56, 69, 184},
    {0x030c, 56, true, 0, 0, 8, 56, 70, 192},
    {0x030d, 72, false, 0, 0, 8, 56, 70, 200},
}};
constexpr char kOfC = 3;  // the owner of a frame that stands for C's part of the stack

template <typename T>
T at(const std::byte* base, std::size_t offset) {
  T value;
  std::memcpy(&value, base + offset, sizeof value);
  return value;
}

using Pointer = const std::byte*;

// Addresses of instructions and the words of their lines. Nothing leaves it. Order: a key is
// stored with release after its word, and read with acquire. Own lock for writers: interpreters
// may have a lock each.
class Lines {
 public:
  [[nodiscard]] std::uint64_t find(Pointer instruction) const {
    for (std::size_t i = place(instruction), tries = 0; tries < kTries; ++tries, ++i) {
      const Entry& entry = entries_[i % kSize];
      const Pointer key = entry.key.load(std::memory_order_acquire);
      if (key == instruction) return entry.word.load(std::memory_order_relaxed);
      if (key == nullptr) return 0;
    }
    return 0;
  }

  void add(Pointer instruction, std::uint64_t word) {
    const RankedLock lock(mutex_);
    if (find(instruction) != 0) return;
    for (std::size_t i = place(instruction), tries = 0; tries < kTries; ++tries, ++i) {
      Entry& entry = entries_[i % kSize];
      if (entry.key.load(std::memory_order_relaxed) != nullptr) continue;
      entry.word.store(word, std::memory_order_relaxed);
      entry.key.store(instruction, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr std::size_t kSize = 1U << 15U;
  static constexpr std::size_t kTries = 16;

  struct Entry {
    std::atomic<Pointer> key{nullptr};
    std::atomic<std::uint64_t> word{0};
  };

  static std::size_t place(Pointer instruction) {
    return (reinterpret_cast<std::uintptr_t>(instruction) * 0x9fb21c651e98df25ULL) >> 49U;
  }

  RankedMutex mutex_{HookRank::PythonNames};
  std::array<Entry, kSize> entries_;
};

// Order: `open` and `readers` are sequentially consistent. A reader counts itself and then asks
// whether it may read; end() closes and then waits for who is counted.
struct Book {
  const Layout* layout = nullptr;
  std::atomic<bool> open{true};
  std::atomic<int> readers{0};
  Lines lines;
};

// Null until there was a lesson, and where the interpreter has another layout.
// Order: stored with release, read with acquire.
constinit std::atomic<Book*> book{nullptr};

struct Method {  // PyMethodDef
  const char* name;
  Object* (*call)(Object*, Object*);
  int flags;
  const char* text;
};

// The interpreter ends, and its frames with it. A child of fork() may have been left with a
// reader that it does not have, so this does not wait for ever.
Object* end(Object*, Object*) {
  constexpr int kPatience = 10'000;
  Book& all = *book.load();
  all.open.store(false);
  for (int i = 0; i < kPatience && all.readers.load() != 0; ++i)
    sched_yield();
  return static_cast<Object*>(dlsym(RTLD_DEFAULT, "_Py_NoneStruct"));
}

// Has Python's atexit call end(), before threads lose their frames.
bool call_at_end(const Interpreter& python) {
  static Method method{"custash_end", end, 0x0004 /* METH_NOARGS */, nullptr};
  Object* (*import)(const char*) = nullptr;
  Object* (*function)(Method*, Object*, Object*) = nullptr;
  Object* (*call)(Object*, ...) = nullptr;
  if (!Interpreter::find(&import, "PyImport_ImportModule") ||
      !Interpreter::find(&function, "PyCFunction_NewEx") ||
      !Interpreter::find(&call, "PyObject_CallFunctionObjArgs"))
    return false;
  Object* const module = import("atexit");
  Object* const add = module == nullptr ? nullptr : python.attribute(module, "register");
  Object* const ours = add == nullptr ? nullptr : function(&method, nullptr, nullptr);
  Object* const done = ours == nullptr ? nullptr : call(add, ours, nullptr);
  for (Object* each : {module, add, ours, done})
    if (each != nullptr) python.drop(each);
  if (done == nullptr) python.clear_error();
  return done != nullptr;
}

const Layout* layout_here() {
  const auto* const version =
      static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  for (const Layout& each : kLayouts)
    if (version != nullptr && *version >> 16U == each.version) return &each;
  return nullptr;
}

// Under the interpreter's lock.
Book* make_book(const Interpreter& python) {
  static std::atomic<bool> tried{false};
  if (tried.exchange(true)) return book.load();
  const Layout* const layout = layout_here();
  if (layout == nullptr) return nullptr;
  auto* const made = new Book;
  made->layout = layout;
  book.store(made, std::memory_order_release);
  if (!call_at_end(python)) made->open.store(false);
  return made;
}

bool of_c(const Layout& layout, Pointer frame) {
  return at<char>(frame, layout.owner) == kOfC;
}

Pointer innermost(const Layout& layout, const Thread* thread) {
  const auto* const base = reinterpret_cast<Pointer>(thread);
  auto frame = at<Pointer>(base, layout.frame);
  if (layout.indirect && frame != nullptr) frame = at<Pointer>(frame, layout.frame_there);
  return frame;
}

unsigned walk(const Book& all, const Thread* thread, std::uint64_t* out, unsigned most) {
  const Layout& layout = *all.layout;
  unsigned size = 0;
  for (Pointer frame = innermost(layout, thread); frame != nullptr && size < most;
       frame = at<Pointer>(frame, layout.previous)) {
    if (of_c(layout, frame)) continue;
    out[size] = all.lines.find(at<Pointer>(frame, layout.instruction));
    if (out[size++] == 0) return kUnknown;
  }
  return size;
}

}  // namespace

unsigned own_frames(const Thread* thread, std::uint64_t* out, unsigned most) noexcept {
  Book* const all = book.load(std::memory_order_acquire);
  if (all == nullptr || thread == nullptr) return kUnknown;
  all->readers.fetch_add(1);
  const unsigned size = all->open.load() ? walk(*all, thread, out, most) : kUnknown;
  all->readers.fetch_sub(1);
  return size;
}

Lesson::Lesson(const Interpreter& python, const Thread* thread) {
  const Book* const all = make_book(python);
  if (all != nullptr && all->open.load() && thread != nullptr)
    own_ = innermost(*all->layout, thread);
}

void Lesson::learn(const Interpreter& python,
                   Object* frame,
                   const Object* code,
                   std::uint64_t word) {
  if (own_ == nullptr) return;
  Book& all = *book.load();
  const Layout& layout = *all.layout;
  const auto* const begin = reinterpret_cast<Pointer>(code);
  const Pointer instruction = begin + layout.instructions + python.instruction(frame);
  // Frames that do not run yet are the interpreter's own affair: it does not show them.
  for (; own_ != nullptr; own_ = at<Pointer>(own_, layout.previous)) {
    if (!of_c(layout, own_) && at<Pointer>(own_, layout.code) == begin &&
        at<Pointer>(own_, layout.instruction) == instruction) {
      all.lines.add(instruction, word);
      own_ = at<Pointer>(own_, layout.previous);
      return;
    }
  }
  all.open.store(false);  // other frames than the interpreter's: not this layout
}

}  // namespace custash::python
